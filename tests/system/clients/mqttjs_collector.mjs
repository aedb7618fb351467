// mqtt.js as a persistent QoS 1 collector, as paho_collector.py; its package lies in the node folder beside this one.
import { createRequire } from "node:module";

const mqtt = createRequire(new URL("../node/package.json", import.meta.url))("mqtt");
const [port, clientId, version] = process.argv.slice(2);
const say = (...words) => process.stdout.write(words.join(" ") + "\n");

const client = mqtt.connect({
  host: "127.0.0.1", port: Number(port), clientId, clean: false, protocolVersion: Number(version), resubscribe: false,
  ...(version === "5" ? { properties: { sessionExpiryInterval: 3600 } } : {}),
});
client.on("error", () => {});
client.on("connect", (connack) => {
  if (connack.sessionPresent) say("READY");
  else client.subscribe("spBv1.0/#", { qos: 1 }, () => say("READY"));
});
client.on("message", (topic, payload, packet) => {
  const pairs = packet.properties?.userProperties ?? {};
  if (packet.qos === 1) say("M", pairs["forebay-id"] ?? 0, topic, payload.toString("hex"));
});
process.stdin.on("end", () => client.end());
process.stdin.resume();
