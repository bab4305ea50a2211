// Clients of the vendors' SDKs for Node that talk to a gateway all at once.
//
// The arguments are the gateway's origin, the key, how many clients each SDK has and
// for how many seconds they talk. Each answer is one line of JSON on standard output.

import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';

const [url, key, each, seconds] = process.argv.slice(2);
const until = performance.now() + Number(seconds) * 1000;
const models = ['on-openai-chat', 'on-openai-responses', 'on-anthropic'];
const forms = 'on-openai-chat'; // the engine holds to a schema in this dialect only
const most = 64;
const hurry = 16; // tokens of an answer in plain text
const leaves = 0.2; // of the streams

const schema = (nonce) => ({
  type: 'object',
  properties: { id: { type: 'string', enum: [nonce] } },
  required: ['id'],
  additionalProperties: false,
});

// What is asked, and whether the client leaves before it has all of the answer.
function order(nonce) {
  const o = { nonce, model: models[Math.floor(Math.random() * models.length)] };
  o.stream = Math.random() < 0.6;
  o.formed = o.model === forms && Math.random() < 0.7;
  o.leaves = o.stream && Math.random() < leaves;
  o.prompt = `Write a long story about ${nonce}.`;
  o.most = o.formed || o.leaves ? most : hurry;
  return o;
}

const usage = (input, cached, output) => ({ input, cached: cached ?? 0, output });

const chatUsage = (u) => usage(u.prompt_tokens, u.prompt_tokens_details?.cached_tokens, u.completion_tokens);

async function* chat(client, o) {
  const ask = { model: o.model, messages: [{ role: 'user', content: o.prompt }], max_completion_tokens: o.most, temperature: 0 };
  if (o.formed) ask.response_format = { type: 'json_schema', json_schema: { name: 'ticket', strict: true, schema: schema(o.nonce) } };
  if (!o.stream) {
    const r = await client.chat.completions.create(ask);
    yield r.choices[0].message.content;
    yield chatUsage(r.usage);
    return;
  }
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
    if (chunk.choices[0]?.delta.content) yield chunk.choices[0].delta.content;
    if (chunk.usage) yield chatUsage(chunk.usage);
  }
}

const responsesUsage = (u) => usage(u.input_tokens, u.input_tokens_details.cached_tokens, u.output_tokens);

async function* responses(client, o) {
  const ask = { model: o.model, input: o.prompt, max_output_tokens: o.most, temperature: 0 };
  if (o.formed) ask.text = { format: { type: 'json_schema', name: 'ticket', strict: true, schema: schema(o.nonce) } };
  if (!o.stream) {
    const r = await client.responses.create(ask);
    yield r.output_text;
    yield responsesUsage(r.usage);
    return;
  }
  for await (const event of await client.responses.create({ ...ask, stream: true })) {
    if (event.type === 'response.output_text.delta') yield event.delta;
    if (event.type === 'response.completed' || event.type === 'response.incomplete') yield responsesUsage(event.response.usage);
  }
}

const messagesUsage = (u) => {
  const cached = u.cache_read_input_tokens ?? 0;
  return usage(u.input_tokens + cached + (u.cache_creation_input_tokens ?? 0), cached, u.output_tokens);
};

async function* messages(client, o) {
  const ask = { model: o.model, max_tokens: o.most, messages: [{ role: 'user', content: o.prompt }] };
  if (o.formed) ask.output_config = { format: { type: 'json_schema', schema: schema(o.nonce) } };
  if (!o.stream) {
    const r = await client.messages.create(ask);
    yield r.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
    yield messagesUsage(r.usage);
    return;
  }
  const stream = client.messages.stream(ask);
  try {
    for await (const event of stream) {
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') yield event.delta.text;
    }
    yield messagesUsage((await stream.finalMessage()).usage);
  } finally {
    stream.abort();
  }
}

const geminiUsage = (u) =>
  usage(u.promptTokenCount, u.cachedContentTokenCount, (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0));

async function* gemini(client, o) {
  const leaving = new AbortController();
  const config = { maxOutputTokens: o.most, temperature: 0, abortSignal: leaving.signal };
  if (o.formed) Object.assign(config, { responseMimeType: 'application/json', responseJsonSchema: schema(o.nonce) });
  const ask = { model: o.model, contents: o.prompt, config };
  if (!o.stream) {
    const r = await client.models.generateContent(ask);
    yield r.text ?? '';
    yield geminiUsage(r.usageMetadata);
    return;
  }
  let last;
  try {
    for await (const chunk of await client.models.generateContentStream(ask)) {
      if (chunk.text) yield chunk.text;
      last = chunk.usageMetadata ?? last;
    }
    yield geminiUsage(last);
  } finally {
    leaving.abort();
  }
}

const openai = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, timeout: 300_000 });
const sdks = {
  chat: [openai, chat],
  responses: [openai, responses],
  anthropic: [() => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 300_000 }), messages],
  gemini: [() => new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url, timeout: 300_000 } }), gemini],
};

// What came of an order. A client that leaves does so after its first piece of text.
async function answer(client, talk, o) {
  const said = { nonce: o.nonce, model: o.model, stream: o.stream, formed: o.formed, text: '' };
  try {
    for await (const piece of talk(client, o)) {
      if (typeof piece !== 'string') {
        Object.assign(said, piece);
        continue;
      }
      said.text += piece;
      if (o.leaves) {
        said.left = true;
        break;
      }
    }
  } catch (e) {
    said.error = `${e.constructor.name}: ${e.message}`; // whatever it is, it goes into the report
  }
  return said;
}

async function talkOn(name, number) {
  const [connect, talk] = sdks[name];
  const client = connect();
  for (let n = 1; performance.now() < until; n++) {
    console.log(JSON.stringify(await answer(client, talk, order(`node-${name}-${number}-${n}`))));
  }
}

const clients = Object.keys(sdks).flatMap((name) => Array.from({ length: Number(each) }, (_, i) => talkOn(name, i)));
await Promise.all(clients);
