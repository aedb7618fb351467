// mqtt.js, many clients in one process. Reads a JSON command a line, prints an event a line:
//   {"do":"open","name":N,"options":{...},"topics":[...],"qos":1,"nodered":false}  -> "C name present" and "S name"
//   {"do":"publish","name":N,"topic":T,"payload":P,"qos":1}                         -> "A name payload" when done
//   {"do":"close","name":N}
// "X name" when a connection has ended,
// and "R name payload" for each message. "nodered": publish only while it believes to be connected, as its nodes do.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const mqtt = createRequire(new URL("../node/package.json", import.meta.url))("mqtt");
const say = (...words) => process.stdout.write(words.join(" ") + "\n");
const clients = new Map();

const commands = {
  open({ name, options, topics, qos, nodered }) {
    const client = mqtt.connect({ host: "127.0.0.1", reconnectPeriod: 200, connectTimeout: 5000, ...options });
    clients.set(name, { client, nodered });
    client.on("error", () => {});
    client.on("close", () => say("X", name));
    client.on("connect", (connack) => {
      say("C", name, connack.sessionPresent ? 1 : 0);
      if (topics.length) client.subscribe(topics, { qos }, () => say("S", name));
    });
    client.on("message", (_topic, payload) => say("R", name, payload.toString().split(" ")[0]));
  },
  publish({ name, topic, payload, qos }) {
    const { client, nodered } = clients.get(name);
    if (nodered && !client.connected) return;
    client.publish(topic, payload, { qos }, (error) => {
      if (!error) say("A", name, payload.split(" ")[0]);
    });
  },
  close({ name }) {
    clients.get(name).client.end();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  commands[command.do](command);
}
process.exit(0);
