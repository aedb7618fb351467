// An edge node with a device on sparkplug-client: births, data, deaths (see peers.py); its package lies in the node folder.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const sparkplug = createRequire(new URL("../node/package.json", import.meta.url))("sparkplug-client");
const plan = JSON.parse(readFileSync(0, "utf8"));
const wide = new Set(["Int64", "UInt64", "DateTime"]);
const metrics = (values) =>
  Object.entries(values).map(([name, [type, value]]) => ({
    name, type, timestamp: Date.now(),
    value: type === "Bytes" && value !== null ? new Uint8Array(Buffer.from(value, "hex")) : wide.has(type) ? Number(value) : value,
  }));
const payload = (values) => ({ timestamp: Date.now(), metrics: metrics(values) });

const client = sparkplug.newClient({
  serverUrl: `mqtt://127.0.0.1:${process.argv[2]}`, username: "", password: "", groupId: "peers", edgeNode: "npm",
  clientId: "npm", publishDeath: true, version: "spBv1.0",
});
client.on("birth", async () => {
  client.publishNodeBirth(payload(plan.birth));
  client.publishDeviceBirth("device", payload(plan.birth));
  for (let round = 0; round < (plan.rounds ?? 1); round++) {
    client.publishNodeData(payload(plan.data));
    client.publishDeviceData("device", payload(plan.data));
    await new Promise((done) => setTimeout(done, 1000 * (plan.pause_s ?? 0)));
  }
  client.publishDeviceDeath("device", payload({}));
  client.stop();
});
