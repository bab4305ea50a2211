// Does features with a vendor's SDK or with frameworks for Node.
//
// Reads one feature per line (the API and the feature's name, the base URL, the key,
// the model) and writes for each one line of JSON: what the SDK saw. A framework's API
// has the framework's name before it: langchain+openai-chat. The arguments are names
// under which packages are installed, each with the version that it must have. The
// first is the SDK's.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const packages = process.argv.slice(2);
const modules = {
  'openai-chat': './openai_chat.mjs',
  'openai-responses': './openai_responses.mjs',
  anthropic: './anthropic_messages.mjs',
  gemini: './gemini_generate.mjs',
  converse: './bedrock_converse.mjs',
  ai: './ai_sdk.mjs',
  langchain: './langchain_chat.mjs',
  'openai-agents': './openai_agents.mjs',
};

// What a package forgets to catch is no feature's end.
process.on('unhandledRejection', (e) => console.error(e));

for (let i = 0; i < packages.length; i += 2) {
  const [name, version] = packages.slice(i);
  const installed = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
  if (installed !== version) throw new Error(`${name} ${installed} is installed, ${version} is wanted; run setup.sh`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const [name, baseURL, key, model] = line.split(' ');
  const [api, feature] = name.split('/');
  let report;
  try {
    const [module, within] = api.split('+');
    const { load } = await import(modules[module]);
    const { connect, features } = await load(within ?? packages[0]);
    report = await features[feature](connect(baseURL, key), model);
  } catch (e) {
    report = { unexpected: `${e.constructor.name}: ${e.message}` }; // a surprise is a report, not the end of the run
  }
  console.log(JSON.stringify(report));
}
