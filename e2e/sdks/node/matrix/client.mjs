// Does features with a vendor's SDK for Node.
//
// Reads one feature per line (the API and the feature's name, the base URL, the key,
// the model) and writes for each one line of JSON: what the SDK saw. The arguments are
// the name under which the SDK is installed and the version that it must have.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [packageName, version] = process.argv.slice(2);
const modules = {
  'openai-chat': './openai_chat.mjs',
  'openai-responses': './openai_responses.mjs',
  anthropic: './anthropic_messages.mjs',
  gemini: './gemini_generate.mjs',
};

const installed = JSON.parse(readFileSync(new URL(`node_modules/${packageName}/package.json`, import.meta.url))).version;
if (installed !== version) throw new Error(`${packageName} ${installed} is installed, ${version} is wanted; run setup.sh`);

for await (const line of createInterface({ input: process.stdin })) {
  const [name, baseURL, key, model] = line.split(' ');
  const [api, feature] = name.split('/');
  let report;
  try {
    const { load } = await import(modules[api]);
    const { connect, features } = await load(packageName);
    report = await features[feature](connect(baseURL, key), model);
  } catch (e) {
    report = { unexpected: `${e.constructor.name}: ${e.message}` }; // a surprise is a report, not the end of the run
  }
  console.log(JSON.stringify(report));
}
