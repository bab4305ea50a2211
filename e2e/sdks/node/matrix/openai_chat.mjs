// Features of OpenAI's SDK on Chat Completions.

import * as ask from './ask.mjs';

const messages = [
  { role: 'system', content: ask.system },
  { role: 'user', content: ask.hello },
];
const weather = { name: 'get_weather', description: ask.description, strict: true, parameters: ask.city };
const tools = [{ type: 'function', function: weather }];

const body = (model, more = {}) => ({ model, messages, max_completion_tokens: ask.most, ...more });
const create = (client, model, more) => client.chat.completions.create(body(model, more));
const final = (client, model, more) => client.chat.completions.stream(body(model, more)).finalChatCompletion();

export const connectWith = (OpenAI) => (baseURL, apiKey) => new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 });

async function text(client, model) {
  const [{ message, finish_reason }] = (await create(client, model)).choices;
  return { text: message.content, finish: finish_reason };
}

async function stream(client, model) {
  const deltas = [];
  const running = client.chat.completions.stream(body(model));
  running.on('content', (delta) => delta && deltas.push(delta));
  const [{ message, finish_reason }] = (await running.finalChatCompletion()).choices;
  return { deltas, text: message.content, finish: finish_reason };
}

const twoRounds = (question, complete) => async (client, model) => {
  const talk = [{ role: 'user', content: question }];
  const first = (await complete(client, model, { messages: talk, tools })).choices[0];
  const calls = first.message.tool_calls.map(({ id, function: { name, arguments: args } }) => ({ id, name, args }));
  talk.push({
    role: 'assistant',
    tool_calls: calls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } })),
  });
  for (const { id, args } of calls) {
    talk.push({ role: 'tool', tool_call_id: id, content: ask.weatherJSON(JSON.parse(args).city) });
  }
  const second = (await complete(client, model, { messages: talk, tools })).choices[0];
  return {
    calls: calls.map(({ name, args }) => ask.callReport(name, JSON.parse(args))),
    finish: [first.finish_reason, second.finish_reason],
    text: second.message.content,
  };
};

async function runner(client, model) {
  const asked = [];
  const get_weather = ({ city }) => {
    asked.push(city);
    return ask.weatherJSON(city);
  };
  const running = client.chat.completions.runTools({
    ...body(model),
    messages: [{ role: 'user', content: ask.one }],
    tools: [{ type: 'function', function: { ...weather, function: get_weather, parse: JSON.parse } }],
  });
  return { text: await running.finalContent(), asked };
}

async function image(client, model) {
  const content = [
    { type: 'text', text: ask.picture },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${ask.pixel}` } },
  ];
  const c = await create(client, model, { messages: [messages[0], { role: 'user', content }] });
  return { text: c.choices[0].message.content };
}

async function reasoning(client, model) {
  const more = { reasoning_effort: 'low', max_completion_tokens: ask.mostThinking };
  const { message } = (await create(client, model, more)).choices[0];
  const streamed = { reasoning: '', text: '' };
  for await (const chunk of await create(client, model, { ...more, stream: true })) {
    for (const { delta } of chunk.choices) {
      streamed.text += delta.content ?? '';
      streamed.reasoning += delta.reasoning_content ?? '';
    }
  }
  return { whole: { reasoning: message.reasoning_content, text: message.content }, stream: streamed };
}

const tokens = (u) =>
  ask.usageReport(
    u.prompt_tokens,
    u.prompt_tokens_details.cached_tokens,
    u.completion_tokens,
    u.completion_tokens_details.reasoning_tokens,
  );

const usage = async (client, model) => ({
  whole: tokens((await create(client, model)).usage),
  stream: tokens((await final(client, model, { stream_options: { include_usage: true } })).usage),
});

export const problem = (create) => async (client, model) => {
  try {
    await create(client, model);
  } catch (e) {
    if (!e.status) throw e;
    return ask.problemReport(e, e.status, e.error?.message ?? e.message, e.headers.get('retry-after'));
  }
  return { error: null };
};

async function* texts(client, model) {
  for await (const chunk of await create(client, model, { stream: true })) {
    for (const { delta } of chunk.choices) yield delta.content ?? '';
  }
}

export async function models(client) {
  const found = await ask.collect(client.models.list());
  return {
    ids: found.map((m) => m.id).sort(),
    typed: found.every((m) => m.object === 'model' && m.created > 0 && m.owned_by),
  };
}

export async function load(packageName) {
  const { default: OpenAI } = await import(packageName);
  const { zodResponseFormat } = await import(`${packageName}/helpers/zod`);
  const structured = async (client, model) => {
    const c = await client.chat.completions.parse(body(model, { response_format: zodResponseFormat(ask.person, 'person') }));
    return { parsed: c.choices[0].message.parsed };
  };
  return {
    connect: connectWith(OpenAI),
    features: {
      text, stream, tools: twoRounds(ask.one, create), parallel: twoRounds(ask.two, final), runner, structured, image,
      reasoning, usage, error_404: problem(create), error_unknown: problem(create), error_429: problem(create),
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel: (client, model) => ask.firstReport(texts(client, model)),
      models,
    },
  };
}
