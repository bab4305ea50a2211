// An MCP server with one tool, over standard input and output: it changes a word in the
// file that it is given.
import { readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const file = process.argv[2];

const repaint = {
  name: "repaint",
  description: "Paints the door of the notes in another colour.",
  inputSchema: {
    type: "object",
    properties: { from: { type: "string" }, to: { type: "string" } },
    required: ["from", "to"],
  },
};

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "painter", version: "1" },
  }),
  "tools/list": () => ({ tools: [repaint] }),
  "tools/call": ({ arguments: { from, to } }) => {
    writeFileSync(file, readFileSync(file, "utf8").replace(from, to));
    return { content: [{ type: "text", text: `painted ${to}` }] };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue; // a notification
  const known = methods[method];
  const answer = known ? { result: known(params) } : { error: { code: -32601, message: `no method ${method}` } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...answer }) + "\n");
}
