// Features of LangChain's chat models: one interface, a package for each vendor.

import { ChatAnthropic } from '@langchain/anthropic';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { ChatGoogle } from '@langchain/google';
import { ChatGoogleGenerativeAI } from '@langchain/google-genai';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, tool } from 'langchain';
import * as ask from './ask.mjs';

const openai = (baseURL, apiKey, model, more) =>
  new ChatOpenAI({ model, apiKey, maxTokens: ask.most, maxRetries: 0, timeout: 20_000, configuration: { baseURL }, ...more });

// For each API: what makes a model of it, and what makes one that thinks. OpenAI's
// option for it is heard only under the names of OpenAI's models.
const apis = {
  'openai-chat': { make: openai, think: { modelKwargs: { reasoning_effort: 'low' } } },
  'openai-responses': {
    make: (baseURL, key, model, more) => openai(baseURL, key, model, { useResponsesApi: true, ...more }),
    think: { modelKwargs: { reasoning: { effort: 'low', summary: 'auto' } }, zdrEnabled: true },
  },
  anthropic: {
    make: (anthropicApiUrl, apiKey, model, more) =>
      new ChatAnthropic({ model, apiKey, anthropicApiUrl, maxTokens: ask.most, maxRetries: 0, ...more }),
    think: { thinking: { type: 'enabled', budget_tokens: 1024 } },
  },
  gemini: {
    make: (baseUrl, apiKey, model, { maxTokens = ask.most, ...more } = {}) =>
      new ChatGoogleGenerativeAI({ model, apiKey, baseUrl, maxOutputTokens: maxTokens, maxRetries: 0, ...more }),
    think: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } },
  },
  google: {
    make: (baseUrl, apiKey, model, { maxTokens = ask.most, ...more } = {}) =>
      new ChatGoogle({ model, apiKey, endpoint: baseUrl, maxOutputTokens: maxTokens, maxRetries: 0, ...more }),
    think: { thinkingBudget: 1024, includeThoughts: true },
  },
};

const messages = [new SystemMessage(ask.system), new HumanMessage(ask.hello)];
const weather = { type: 'function', function: { name: 'get_weather', description: ask.description, parameters: ask.city } };

const plain = (client, model) => client.make(model);
const thinking = (client, model) => client.make(model, { ...client.think, maxTokens: ask.mostThinking });

const whole = (chat, talk, options) => chat.invoke(talk, options);

// The chunks of a stream, added up as LangChain adds them.
async function streamed(chat, talk, options) {
  let all;
  for await (const chunk of await chat.stream(talk, options)) all = all ? all.concat(chunk) : chunk;
  return all;
}

const finishOf = ({ response_metadata: said, additional_kwargs: more }) =>
  said.finish_reason ?? said.finishReason ?? said.stop_reason ?? more.stop_reason ?? said.status ?? '';

async function text(client, model) {
  const m = await whole(plain(client, model), messages);
  return { text: m.text, finish: finishOf(m) };
}

async function stream(client, model) {
  const deltas = [];
  let all;
  for await (const chunk of await plain(client, model).stream(messages)) {
    if (chunk.text) deltas.push(chunk.text);
    all = all ? all.concat(chunk) : chunk;
  }
  return { deltas, text: all.text, finish: finishOf(all) };
}

async function turns(client, model) {
  const chat = plain(client, model);
  const first = await whole(chat, messages);
  const second = await streamed(chat, [...messages, first, new HumanMessage(ask.one)]);
  return { texts: [first.text, second.text] };
}

const twoRounds = (question, turn, model = plain) => async (client, name) => {
  const chat = model(client, name).bindTools([weather]);
  const talk = [new HumanMessage(question)];
  const first = await turn(chat, talk);
  talk.push(first);
  for (const { id, name, args } of first.tool_calls) {
    talk.push(new ToolMessage({ tool_call_id: id, name, content: ask.weatherJSON(args.city) }));
  }
  const second = await turn(chat, talk);
  return {
    calls: first.tool_calls.map(({ name, args }) => ask.callReport(name, args)),
    finish: [finishOf(first), finishOf(second)],
    text: second.text,
  };
};

// The agent of the package langchain.
async function runner(client, model) {
  const asked = [];
  const get_weather = tool(
    ({ city }) => {
      asked.push(city);
      return ask.weatherJSON(city);
    },
    { name: 'get_weather', description: ask.description, schema: ask.city },
  );
  const agent = createAgent({ model: plain(client, model), tools: [get_weather] });
  const said = await agent.invoke({ messages: [new HumanMessage(ask.one)] });
  return { asked, text: said.messages.at(-1).text };
}

const structured = (method) => async (client, model) => {
  const chat = plain(client, model).withStructuredOutput(ask.person, { method, name: 'person' });
  return { parsed: await chat.invoke(messages) };
};

async function image(client, model) {
  const contentBlocks = [
    { type: 'text', text: ask.picture },
    { type: 'image', mimeType: 'image/png', data: ask.pixel },
  ];
  const m = await whole(plain(client, model), [messages[0], new HumanMessage({ contentBlocks })]);
  return { text: m.text };
}

const thoughts = (m) => ({
  reasoning: m.contentBlocks.filter((b) => b.type === 'reasoning').map((b) => b.reasoning).join(''),
  text: m.text,
});
const reasoning = (turn) => async (client, model) => thoughts(await turn(thinking(client, model), messages));

const usage = (turn) => async (client, model) => {
  const u = (await turn(plain(client, model), messages)).usage_metadata;
  return ask.usageReport(u.input_tokens, u.input_token_details?.cache_read, u.output_tokens, u.output_token_details?.reasoning);
};

// Each package keeps what the server said in a place of its own, one only in the
// message: "… [404 Not Found] The file does not exist. []".
async function problem(client, model) {
  try {
    await whole(plain(client, model), messages);
  } catch (e) {
    const error = e.data?.error ?? e.error?.error ?? e.error ?? {};
    const details = error.details ?? e.errorDetails;
    const delay = Array.isArray(details) ? details.map((d) => d.retryDelay ?? '').join('').replace('s', '') : '';
    const message = error.message ?? e.message.replace(/^.*\[\d+ [^\]]*\] (.*?)( \[.*\])?$/, '$1');
    return ask.problemReport(e, e.status ?? e.statusCode, message, e.headers?.get?.('retry-after') ?? delay);
  }
  return { error: null };
}

async function* texts(client, model, options) {
  for await (const chunk of await plain(client, model).stream(messages, options)) if (chunk.text) yield chunk.text;
}

async function cancel(client, model) {
  const controller = new AbortController();
  for await (const text of texts(client, model, { signal: controller.signal })) {
    controller.abort();
    return { text };
  }
}

export async function load(api) {
  const { make, think } = apis[api];
  return {
    connect: (baseURL, key) => ({ make: (model, more) => make(baseURL, key, model, more), think }),
    features: {
      text, stream, turns, tools: twoRounds(ask.one, whole), parallel: twoRounds(ask.two, streamed),
      sealed: ask.both(twoRounds(ask.one, whole, thinking), twoRounds(ask.one, streamed, thinking)),
      runner, structured: structured('jsonSchema'), structured_tool: structured('functionCalling'), image, reasoning: ask.both(reasoning(whole), reasoning(streamed)), usage: ask.both(usage(whole), usage(streamed)),
      error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel,
    },
  };
}
