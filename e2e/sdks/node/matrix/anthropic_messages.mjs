// Features of Anthropic's SDK.

import { z } from 'zod';
import * as ask from './ask.mjs';

const weather = { name: 'get_weather', description: ask.description, input_schema: ask.city };

const think = { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: ask.mostThinking };

const user = (content) => ({ role: 'user', content });
const body = (model, more = {}) => ({
  model,
  messages: [user(ask.hello)],
  system: ask.system,
  max_tokens: ask.most,
  ...more,
});
const create = (client, model, more) => client.messages.create(body(model, more));
const final = (client, model, more) => client.messages.stream(body(model, more)).finalMessage();

const textOf = (message) => message.content.map((b) => (b.type === 'text' ? b.text : '')).join('');

async function text(client, model) {
  const m = await create(client, model);
  return { text: textOf(m), finish: m.stop_reason };
}

async function stream(client, model) {
  const deltas = [];
  const running = client.messages.stream(body(model));
  running.on('text', (delta) => deltas.push(delta));
  const m = await running.finalMessage();
  return { deltas, text: textOf(m), finish: m.stop_reason };
}

const twoRounds = (question, complete, extra = {}) => async (client, model) => {
  const messages = [user(question)];
  const more = { messages, system: undefined, tools: [weather], ...extra };
  const first = await complete(client, model, more);
  const calls = first.content.filter((b) => b.type === 'tool_use');
  messages.push({ role: 'assistant', content: first.content });
  messages.push(
    user(calls.map((c) => ({ type: 'tool_result', tool_use_id: c.id, content: ask.weatherJSON(c.input.city) }))),
  );
  const second = await complete(client, model, more);
  return {
    calls: calls.map((c) => ask.callReport(c.name, c.input)),
    finish: [first.stop_reason, second.stop_reason],
    text: textOf(second),
  };
};

async function image(client, model) {
  const source = { type: 'base64', media_type: 'image/png', data: ask.pixel };
  const messages = [user([{ type: 'text', text: ask.picture }, { type: 'image', source }])];
  return { text: textOf(await create(client, model, { messages })) };
}

const thoughts = (message) => ({
  reasoning: message.content.map((b) => (b.type === 'thinking' ? b.thinking : '')).join(''),
  text: textOf(message),
});

async function reasoning(client, model) {
  return { whole: thoughts(await create(client, model, think)), stream: thoughts(await final(client, model, think)) };
}

function tokens(u) {
  const cached = u.cache_read_input_tokens ?? 0;
  const fresh = u.input_tokens + (u.cache_creation_input_tokens ?? 0);
  return ask.usageReport(fresh + cached, cached, u.output_tokens, u.output_tokens_details?.thinking_tokens);
}

const usage = async (client, model) => ({
  whole: tokens((await create(client, model)).usage),
  stream: tokens((await final(client, model)).usage),
});

async function problem(client, model) {
  try {
    await create(client, model);
  } catch (e) {
    if (!e.status) throw e;
    return ask.problemReport(e, e.status, e.error?.error?.message ?? e.message, e.headers.get('retry-after'));
  }
  return { error: null };
}

async function* texts(client, model) {
  for await (const event of await create(client, model, { stream: true })) {
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') yield event.delta.text;
  }
}

async function models(client) {
  const found = await ask.collect(client.models.list());
  return {
    ids: found.map((m) => m.id).sort(),
    typed: found.every((m) => m.type === 'model' && m.display_name && m.created_at),
  };
}

async function countTokens(client, model) {
  const { max_tokens, ...rest } = body(model, { tools: [weather] });
  try {
    return { tokens: (await client.messages.countTokens(rest)).input_tokens };
  } catch (e) {
    if (e.status !== 501) throw e;
    return { refused: true };
  }
}

export async function load(packageName) {
  const { default: Anthropic } = await import(packageName);
  const { zodOutputFormat } = await import(`${packageName}/helpers/zod`);
  const { betaZodTool } = await import(`${packageName}/helpers/beta/zod`);
  const structured = async (client, model) => {
    const m = await client.messages.parse(body(model, { output_config: { format: zodOutputFormat(ask.person) } }));
    return { parsed: m.parsed_output };
  };
  const runner = async (client, model) => {
    const asked = [];
    const tool = betaZodTool({
      name: 'get_weather',
      description: ask.description,
      inputSchema: z.object({ city: z.string() }),
      run: ({ city }) => {
        asked.push(city);
        return ask.weatherJSON(city);
      },
    });
    const m = await client.beta.messages.toolRunner({ model, max_tokens: ask.most, messages: [user(ask.one)], tools: [tool] });
    return { asked, text: textOf(m) };
  };
  return {
    connect: (baseURL, apiKey) => new Anthropic({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 }),
    features: {
      text, stream, tools: twoRounds(ask.one, create), parallel: twoRounds(ask.two, final),
      sealed: ask.both(twoRounds(ask.one, create, think), twoRounds(ask.one, final, think)), runner, structured, image,
      reasoning, usage, error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel: (client, model) => ask.firstReport(texts(client, model)),
      models,
      count_tokens: countTokens,
    },
  };
}
