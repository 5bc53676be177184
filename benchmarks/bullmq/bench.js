// Add and drain no-op jobs: node bench.js PORT JOBS BULK CONCURRENCY, prints {"add", "drain"}, jobs/s.
import { Queue, Worker } from "bullmq";

const [port, jobs, bulk, concurrency] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port };
const queue = new Queue(`bench-${process.pid}`, { connection });
await queue.waitUntilReady();

const seconds = () => Number(process.hrtime.bigint()) / 1e9;

const begin = seconds();
for (let start = 0; start < jobs; start += bulk) {
  const many = Math.min(bulk, jobs - start);
  await queue.addBulk(
    // Finished jobs are deleted at once, which is the fastest setting.
    Array.from({ length: many }, () => ({
      name: "nothing", data: null, opts: { removeOnComplete: true, attempts: 3 },
    })),
  );
}
const added = seconds();

// One process, as in its documentation; Redis uses the other core.
let left = jobs;
const worker = new Worker(queue.name, async () => null, { connection, concurrency, autorun: false });
await worker.waitUntilReady();
const finished = new Promise((resolve) => {
  worker.on("completed", () => { left -= 1; if (left === 0) resolve(); });
});
const started = seconds();
worker.run();
await finished;
const ended = seconds();

console.log(JSON.stringify({ add: jobs / (added - begin), drain: jobs / (ended - started) }));
await worker.close();
await queue.obliterate({ force: true });
await queue.close();
