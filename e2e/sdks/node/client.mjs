// Plays scenarios with the OpenAI SDK for Node.
//
// Reads one scenario per line (its name, the base URL, the API key) and writes for
// each one line of JSON: what the SDK saw. The arguments are the name under which
// the SDK is installed and the version that it must have.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';

const [packageName, version] = process.argv.slice(2);
const { default: OpenAI, APIError } = await import(packageName);
const { zodResponseFormat } = await import(`${packageName}/helpers/zod`);

const unicode = 'Grüße, 世界! עברית \u2028 é e\u0301 👩‍👩‍👧 \u{1f9ff} \\ " \t \u0001 </script>';
const model = 'gpt-real';
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Say hello.' },
];
const parameters = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
const weather = { name: 'get_weather', description: 'The weather of a city.', strict: true, parameters };
const tools = [{ type: 'function', function: weather }];
const person = zodResponseFormat(z.object({ name: z.string(), age: z.number().int(), tags: z.array(z.string()) }), 'person');

// What is reported

const usageReport = (u) => ({
  prompt: u.prompt_tokens,
  completion: u.completion_tokens,
  total: u.total_tokens,
  cached: u.prompt_tokens_details.cached_tokens,
  reasoning: u.completion_tokens_details.reasoning_tokens,
});

const chatReport = (c) => ({
  id: c.id,
  model: c.model,
  content: c.choices[0].message.content,
  finish: c.choices[0].finish_reason,
  usage: usageReport(c.usage),
  request_id: c._request_id,
});

const choicesReport = (c) => ({
  choices: c.choices.map((x) => ({ index: x.index, content: x.message.content, finish: x.finish_reason })),
});

const statusReport = (e) => ({
  error: {
    class: e.constructor.name,
    status: e.status,
    type: e.type ?? '',
    param: e.param ?? '',
    code: e.code ?? '',
    message: e.error?.message ?? e.message,
    retry_after: e.headers.get('retry-after') ?? '',
    request_id: e.requestID ?? '',
  },
});

const failure = (e) => ({ class: e.constructor.name, message: e.message });

// Chat

const ask = (client, more = {}, options = {}) => client.chat.completions.create({ model, messages, ...more }, options);

const chatText = async (client) => chatReport(await ask(client, { temperature: 0.2, max_completion_tokens: 64, seed: 7 }));

const askAtLength = (client, mebibytes) =>
  ask(client, { messages: [{ role: 'user', content: '0123456789abcdef'.repeat(mebibytes << 16) }] });

const chatLarge = async (client) => ({ length: (await askAtLength(client, 4)).choices[0].message.content.length });

async function chatExtraFields(client) {
  const c = await ask(client, { top_k: 7, vendor_hint: { depth: 1.5, none: null, tags: [] } });
  const { content, reasoning_content } = c.choices[0].message;
  return { content, reasoning_content, timings: c.timings };
}

async function chatHeaders(client) {
  const { data, response } = await ask(client).withResponse();
  return {
    content: data.choices[0].message.content,
    remaining: response.headers.get('x-ratelimit-remaining-requests') ?? '',
    reset: response.headers.get('x-ratelimit-reset-tokens') ?? '',
  };
}

// Streams

async function streamHelper(client) {
  const deltas = [];
  const stream = client.chat.completions.stream({ model, messages });
  stream.on('content', (delta) => delta && deltas.push(delta));
  const c = await stream.finalChatCompletion();
  const choice = c.choices[0];
  return { id: c.id, model: c.model, deltas, content: choice.message.content, finish: choice.finish_reason };
}

async function streamRaw(client) {
  const chunks = [];
  let finish = '';
  let error = null;
  try {
    for await (const chunk of await ask(client, { model: 'alias', stream: true })) {
      chunks.push(chunk.choices[0].delta.content ?? '');
      finish = chunk.choices[0].finish_reason ?? finish;
    }
  } catch (e) {
    error = failure(e);
  }
  return { chunks, finish, error };
}

async function streamUsage(client) {
  let content = '';
  let usage;
  let bare = 0;
  for await (const chunk of await ask(client, { stream: true, stream_options: { include_usage: true } })) {
    if (chunk.choices.length === 0) bare++;
    for (const choice of chunk.choices) content += choice.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  return { content, usage: usageReport(usage), chunks_without_choices: bare };
}

const streamN2 = async (client) =>
  choicesReport(await client.chat.completions.stream({ model, messages, n: 2 }).finalChatCompletion());

// The report of a call that must not come to an answer.
const unanswered = (call) => async (client) => {
  try {
    const c = await call(client);
    return { content: c.choices[0].message.content, error: null };
  } catch (e) {
    return { content: null, error: failure(e) };
  }
};

const finalOfStream = unanswered((client) => client.chat.completions.stream({ model, messages, tools }).finalChatCompletion());

// Tools: the model's calls, their results, the answer

const degrees = ({ city }) => JSON.stringify({ degrees: city === 'Paris' ? 21 : 22 });

const toolsWith = (complete) => async (client) => {
  const talk = [{ role: 'user', content: 'How warm is it in Paris and in Köln?' }];
  const first = (await complete(client, talk)).choices[0];
  const calls = first.message.tool_calls;
  talk.push({
    role: 'assistant',
    tool_calls: calls.map((c) => ({
      id: c.id,
      type: 'function',
      function: { name: c.function.name, arguments: c.function.arguments },
    })),
  });
  for (const c of calls) {
    talk.push({ role: 'tool', tool_call_id: c.id, content: degrees(JSON.parse(c.function.arguments)) });
  }
  const second = (await complete(client, talk)).choices[0];
  return {
    calls: calls.map((c) => ({ id: c.id, name: c.function.name, arguments: c.function.arguments })),
    finish: [first.finish_reason, second.finish_reason],
    content: second.message.content,
  };
};

const toolsWhole = toolsWith((client, talk) => ask(client, { messages: talk, tools }));
const toolsStream = toolsWith((client, talk) =>
  client.chat.completions.stream({ model, messages: talk, tools }).finalChatCompletion(),
);

async function toolsRunner(client) {
  const asked = [];
  const get_weather = (args) => {
    asked.push(args.city);
    return degrees(args);
  };
  const runner = client.chat.completions.runTools({
    model,
    messages: [{ role: 'user', content: 'How warm is it in Paris and in Köln?' }],
    stream: true,
    tools: [{ type: 'function', function: { ...weather, function: get_weather, parse: JSON.parse } }],
  });
  return { asked, content: await runner.finalContent() };
}

// Structured output

const parsedReport = ({ message }) => ({ parsed: message.parsed ?? null, refusal: message.refusal ?? '' });

const structuredWhole = async (client) =>
  parsedReport((await client.chat.completions.parse({ model, messages, response_format: person })).choices[0]);

const structuredStream = async (client) =>
  parsedReport((await client.chat.completions.stream({ model, messages, response_format: person }).finalChatCompletion()).choices[0]);

// Embeddings and models

async function embeddings(client, more = {}) {
  const r = await client.embeddings.create({ model: 'embed', input: ['eins', 'zwei ✓'], ...more });
  return {
    vectors: r.data.map((d) => Array.from(d.embedding)),
    usage: { prompt: r.usage.prompt_tokens, total: r.usage.total_tokens },
    model: r.model,
  };
}

async function modelsList(client) {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  return { ids: ids.sort() };
}

async function retrieve(client, name) {
  const { id, object, owned_by } = await client.models.retrieve(name);
  return { id, object, owned_by };
}

// Errors

// The report of a call that must fail with a status.
const refused = (call) => async (client) => {
  try {
    await call(client);
  } catch (e) {
    if (e instanceof APIError && e.status) return statusReport(e);
    throw e;
  }
  return { error: null };
};

const askRefused = refused((client) => ask(client));

// Going away

async function cancelStream(client) {
  const chunks = [];
  for await (const chunk of await ask(client, { stream: true })) {
    chunks.push(chunk.choices[0].delta.content ?? '');
    if (chunks.length === 2) break;
  }
  return { chunks };
}

const cancelOnCue = (more) => async (client) => {
  const controller = new AbortController();
  const request = ask(client, more, { signal: controller.signal });
  const outcome = request.then(
    () => false,
    (e) => e.constructor.name === 'APIUserAbortError',
  );
  await lines.next();
  controller.abort();
  return { cancelled: await outcome };
};

const scenarios = {
  chat_text: chatText,
  chat_unicode: async (client) => chatReport(await ask(client, { messages: [{ role: 'user', content: unicode }] })),
  chat_escapes: chatText,
  chat_alias: async (client) => chatReport(await ask(client, { model: 'alias', user: 'alias' })),
  chat_slashed: async (client) => chatReport(await ask(client, { model: 'vendor/slashed' })),
  chat_gzip: chatText,
  chat_large: chatLarge,
  chat_n2: async (client) => choicesReport(await ask(client, { n: 2 })),
  chat_extra_fields: chatExtraFields,
  chat_headers: chatHeaders,
  stream_helper: streamHelper,
  stream_raw: streamRaw,
  stream_unicode: streamRaw,
  stream_framing: streamRaw,
  stream_no_done: streamRaw,
  stream_usage: streamUsage,
  stream_n2: streamN2,
  tools_whole: toolsWhole,
  tools_stream: toolsStream,
  tools_runner: toolsRunner,
  structured_whole: structuredWhole,
  structured_stream: structuredStream,
  structured_refusal: structuredWhole,
  embeddings,
  embeddings_float: (client) => embeddings(client, { encoding_format: 'float', dimensions: 3 }),
  models_list: modelsList,
  models_retrieve: (client) => retrieve(client, 'gpt-real'),
  models_retrieve_slashed: (client) => retrieve(client, 'vendor/slashed'),
  error_model_not_found: refused((client) => ask(client, { model: 'no-such-model' })),
  error_model_retrieve: refused((client) => retrieve(client, 'no-such/model')),
  error_auth: askRefused,
  error_media_type: refused((client) => ask(client, {}, { headers: { 'Content-Type': 'text/plain' } })),
  error_body_limit: refused((client) => askAtLength(client, 12)),
  error_bad_request: refused((client) => ask(client, { stop: [...'abcdefghi'] })),
  error_too_large: askRefused,
  error_rate_limit: askRefused,
  error_rate_limit_stream: refused((client) => ask(client, { stream: true })),
  retry_after_rate_limit: async (client) => chatReport(await ask(client, {}, { maxRetries: 1 })),
  error_server: askRefused,
  error_provider_key: askRefused,
  error_not_json: askRefused,
  cut_stream: streamRaw,
  cut_stream_clean: streamRaw,
  cut_stream_helper: finalOfStream,
  cut_tool_call: finalOfStream,
  cut_whole: unanswered((client) => ask(client)),
  stream_error_event: streamRaw,
  stream_error_event_late: streamRaw,
  stream_error_event_first: streamRaw,
  cancel_stream: cancelStream,
  cancel_waiting: cancelOnCue({ stream: true }),
  cancel_whole: cancelOnCue({}),
};

function checkVersion() {
  const installed = JSON.parse(readFileSync(new URL(`node_modules/${packageName}/package.json`, import.meta.url))).version;
  if (installed !== version) throw new Error(`openai ${installed} is installed, ${version} is wanted; run setup.sh`);
}

checkVersion();
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  const [name, baseURL, apiKey] = line.value.split(' ');
  let report;
  try {
    report = await scenarios[name](new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 }));
  } catch (e) {
    report = { unexpected: failure(e) }; // a scenario's surprise is its report, not the end of the run
  }
  console.log(JSON.stringify(report));
}
