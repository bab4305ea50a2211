// Features of OpenAI's Agents SDK: one agent, a model class for each API.

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import * as ask from './ask.mjs';

setTracingDisabled(true); // it would be sent to OpenAI

const apis = { 'openai-chat': OpenAIChatCompletionsModel, 'openai-responses': OpenAIResponsesModel };

const plain = { maxTokens: ask.most };
const think = {
  maxTokens: ask.mostThinking, reasoning: { effort: 'low', summary: 'auto' }, store: false,
  providerData: { include: ['reasoning.encrypted_content'] },
};

const agentOf = ({ api, openai }, model, more) =>
  new Agent({ name: 'Assistant', model: new apis[api](openai, model), modelSettings: plain, ...more });
const brief = (client, model, more) => agentOf(client, model, { instructions: ask.system, ...more });
const thinking = (client) => ({ ...think, providerData: client.api === 'openai-responses' ? think.providerData : undefined });

const whole = (agent, question) => new Runner().run(agent, question);

async function streamed(agent, question) {
  const run = await new Runner().run(agent, question, { stream: true });
  for await (const _ of run);
  await run.completed;
  return run;
}

async function text(client, model) {
  return { text: (await whole(brief(client, model), ask.hello)).finalOutput, finish: '' };
}

async function stream(client, model) {
  const run = await new Runner().run(brief(client, model), ask.hello, { stream: true });
  const deltas = await ask.collect(run.toTextStream());
  await run.completed;
  return { deltas, text: run.finalOutput, finish: '' };
}

async function turns(client, model) {
  const agent = brief(client, model);
  const first = await whole(agent, ask.hello);
  const second = await streamed(agent, [...first.history, { role: 'user', content: ask.one }]);
  return { texts: [first.finalOutput, second.finalOutput] };
}

// An agent with a tool, and the cities that the tool is asked for.
function weatherman(client, model, modelSettings = plain) {
  const asked = [];
  const get_weather = tool({
    name: 'get_weather', description: ask.description, parameters: z.object({ city: z.string() }),
    execute: ({ city }) => {
      asked.push(city);
      return ask.weatherJSON(city);
    },
  });
  return { asked, agent: agentOf(client, model, { tools: [get_weather], modelSettings }) };
}

const twoRounds = (question, turn, settings = () => plain) => async (client, model) => {
  const run = await turn(weatherman(client, model, settings(client)).agent, question);
  const calls = run.newItems.filter((i) => i.type === 'tool_call_item').map((i) => i.rawItem);
  return {
    calls: calls.map((c) => ask.callReport(c.name, JSON.parse(c.arguments))),
    finish: run.rawResponses.map(() => ''),
    text: run.finalOutput,
  };
};

async function runner(client, model) {
  const { agent, asked } = weatherman(client, model);
  const { finalOutput } = await whole(agent, ask.one);
  return { asked, text: finalOutput };
}

async function structured(client, model) {
  return { parsed: (await whole(brief(client, model, { outputType: ask.person }), ask.hello)).finalOutput };
}

async function image(client, model) {
  const content = [
    { type: 'input_text', text: ask.picture },
    { type: 'input_image', image: `data:image/png;base64,${ask.pixel}` },
  ];
  return { text: (await whole(brief(client, model), [{ role: 'user', content }])).finalOutput };
}

const reasoning = (turn) => async (client, model) => {
  const run = await turn(brief(client, model, { modelSettings: thinking(client) }), ask.hello);
  const items = run.newItems.filter((i) => i.type === 'reasoning_item').map((i) => i.rawItem);
  return { reasoning: items.flatMap((i) => i.content.map((c) => c.text)).join(''), text: run.finalOutput };
};

const usage = (turn) => async (client, model) => {
  const { usage: u } = (await turn(brief(client, model), ask.hello)).rawResponses.at(-1);
  const sum = (list, name) => [list].flat().reduce((n, d) => n + (d[name] ?? 0), 0);
  return ask.usageReport(
    u.inputTokens, sum(u.inputTokensDetails, 'cached_tokens'), u.outputTokens, sum(u.outputTokensDetails, 'reasoning_tokens'),
  );
};

async function problem(client, model) {
  try {
    await whole(brief(client, model), ask.hello);
  } catch (e) {
    if (!e.status) throw e;
    return ask.problemReport(e, e.status, e.error?.message ?? e.message, e.headers.get('retry-after'));
  }
  return { error: null };
}

async function* texts(client, model, options) {
  const run = await new Runner().run(brief(client, model), ask.hello, { stream: true, ...options });
  yield* run.toTextStream();
  await run.completed;
}

async function cancel(client, model) {
  const controller = new AbortController();
  for await (const text of texts(client, model, { signal: controller.signal })) {
    controller.abort();
    return { text };
  }
}

export async function load(api) {
  return {
    connect: (baseURL, apiKey) => ({ api, openai: new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 20_000 }) }),
    features: {
      text, stream, turns, tools: twoRounds(ask.one, whole), parallel: twoRounds(ask.two, streamed),
      sealed: ask.both(twoRounds(ask.one, whole, thinking), twoRounds(ask.one, streamed, thinking)),
      runner, structured, image, reasoning: ask.both(reasoning(whole), reasoning(streamed)), usage: ask.both(usage(whole), usage(streamed)),
      error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel,
    },
  };
}
