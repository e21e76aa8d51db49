// fauxqs on one port, of the address that is given: by itself it would listen on all of them.
import { buildApp } from "fauxqs";

const [port, host = "127.0.0.1"] = process.argv.slice(2);
await buildApp({ logger: false }).listen({ host, port: Number(port) });
