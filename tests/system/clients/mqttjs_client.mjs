// mqtt.js as a real client (see drivers.py); its package lies in the node folder beside this one.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const mqtt = createRequire(new URL("../node/package.json", import.meta.url))("mqtt");
const [mode, port, name, topic, qosText, stop, rate] = process.argv.slice(2);
const qos = Number(qosText);
const IN_FLIGHT = 50;
const say = (...words) => process.stdout.write(words.join(" ") + "\n");
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const client = mqtt.connect({
  host: "127.0.0.1", port: Number(port), clientId: name, clean: false, protocolVersion: 5,
  properties: { sessionExpiryInterval: 3600 }, reconnectPeriod: 200, resubscribe: false, connectTimeout: 5000,
});
client.on("error", () => {});
client.on("connect", (connack) => {
  say("C", connack.sessionPresent ? 1 : 0, connack.reasonCode ?? 0);
  if (mode === "sub" && !connack.sessionPresent) client.subscribe(topic, { qos }, () => say("READY"));
});
client.on("message", (_topic, payload) => say("R", payload.toString()));

let flying = 0;
if (mode === "pub") {
  await new Promise((done) => client.once("connect", done));
  for (let number = 1; ; number++) {
    await sleep(1000 / Number(rate));
    // what is published while it sends its store again after a reconnect is given up when that connection goes too
    while (flying >= IN_FLIGHT || !client.connected || client._storeProcessing) await sleep(5);
    if (existsSync(stop)) break;
    say("S", number);
    flying++;
    client.publish(`${topic}/${number % 3}`, `${name} ${number}`, { qos }, (error) => {
      flying--;
      // a PUBREL sent again for what had been completed before the crash: PUBCOMP 0x92, and the message is there
      const done = !error || (qos === 2 && error.code === 0x92);
      say(done ? "A" : "E", number, error ?? "");
    });
  }
  while (flying) await sleep(50);
  say("DONE");
} else {
  while (!existsSync(stop)) await sleep(50);
}
await client.endAsync(true);
