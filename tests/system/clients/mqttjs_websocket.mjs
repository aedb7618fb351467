// mqtt.js over WebSocket: subscribes, publishes at each QoS and prints what comes back.
import { createRequire } from "node:module";

const mqtt = createRequire(new URL("../node/package.json", import.meta.url))("mqtt");
const [url, version, ca] = process.argv.slice(2);
const { readFileSync } = await import("node:fs");
const client = await mqtt.connectAsync(url, {
  protocolVersion: Number(version), clean: true, reconnectPeriod: 0, connectTimeout: 20000,
  ...(ca ? { ca: readFileSync(ca) } : {}),
});
let left = 6;
client.on("message", async (topic, payload, packet) => {
  process.stdout.write(`${topic} ${packet.qos} ${payload.length}\n`);
  if (--left === 0) await client.endAsync();
});
await client.subscribeAsync("page/#", { qos: 2 });
for (const size of [10, 100000]) {
  for (const qos of [0, 1, 2]) await client.publishAsync("page/t", Buffer.alloc(size, 120), { qos });
}
