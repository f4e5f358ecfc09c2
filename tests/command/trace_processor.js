// Perfetto's trace_processor as its pages have it, in WebAssembly, behind a pipe: its RPC stream, each piece with its length before it
// (u32, little endian). node trace_processor.js DIRECTORY, which holds engine_bundle.js and trace_processor*.wasm.
const fs = require("fs"), path = require("path"), vm = require("vm");
const directory = process.argv[2], { stdin } = process;
const read = (name) => fs.readFileSync(path.join(directory, path.basename(name)));

// The engine is made for a worker of a browser.
Object.assign(globalThis, {
  self: globalThis,
  importScripts: () => {},
  WorkerGlobalScope: class {},
  location: { href: "http://localhost/engine_bundle.js", protocol: "http:", host: "localhost" },
  XMLHttpRequest: class {
    open(_, name) { this.name = name; }
    send() { this.status = 200; this.response = new Uint8Array(read(this.name)).buffer; }
  },
});
console.log = console.warn;
vm.runInThisContext(`(function (process) {${read("engine_bundle.js")}\n})`)(undefined);

const answer = (bytes) => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  for (const piece of [length, bytes]) for (let at = 0; at < piece.length; ) at += fs.writeSync(1, piece, at);
};
const port = { postMessage: (bytes) => answer(Buffer.from(bytes)) };
self.onmessage({ data: port });

// Read when this script has run: the engine is there by then.
let rest = Buffer.alloc(0);
stdin.on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
    const end = 4 + rest.readUInt32LE(0), piece = rest.subarray(4, end);
    rest = rest.subarray(end);
    port.onmessage({ data: new Uint8Array(piece) });
  }
});
stdin.on("end", () => process.exit(0));
