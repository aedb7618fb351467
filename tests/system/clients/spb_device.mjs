// A Sparkplug edge node with mqtt.js at QoS 1: PORT GROUP NODE INTERVAL_MS KEEP_ALIVE_S (see spb_device.py).
import { createRequire } from "node:module";

const mqtt = createRequire(new URL("../node/package.json", import.meta.url))("mqtt");
const [port, group, node, interval, keepalive] = process.argv.slice(2);
const topic = (type) => `spBv1.0/${group}/${type}/${node}`;

const varint = (number) => {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
};
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const block = (field, data) => Buffer.concat([varint((field << 3) | 2), varint(data.length), data]);
const INT64 = 4;
const metric = (name, value, time) =>
  block(2, Buffer.concat([block(1, Buffer.from(name)), number(3, time), number(4, INT64), number(11, value)]));
const payload = (metrics, seq) => {
  const parts = [number(1, Date.now()), ...metrics];
  return Buffer.concat(seq === undefined ? parts : [...parts, number(3, seq)]);
};

let seq = 0;
let count = 0;
const client = mqtt.connect({
  host: "127.0.0.1", port: Number(port), clientId: node, clean: true, protocolVersion: 4, keepalive: Number(keepalive),
  reconnectPeriod: 200, connectTimeout: 2000,
  will: { topic: topic("NDEATH"), payload: payload([metric("bdSeq", 0, Date.now())]), qos: 1, retain: false },
});
client.on("error", () => {});
client.on("connect", () => {
  process.stdout.write("C\n");
  seq = 0;
  const metrics = [metric("bdSeq", 0, Date.now()), metric("Counter", count, Date.now())];
  client.publish(topic("NBIRTH"), payload(metrics, 0), { qos: 0 });
});
setInterval(() => {
  seq = (seq + 1) % 256;
  count += 1;
  client.publish(topic("NDATA"), payload([metric("Counter", count, Date.now())], seq), { qos: 1 });
}, Number(interval));
