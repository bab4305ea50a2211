// Features of the AI SDK: one interface, a provider for each vendor.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogle } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai';
import * as ask from './ask.mjs';

// For each API: what makes models of it, the options that it always needs, and those
// that make it think. A model's name is the gateway's, so what the provider would
// guess from a vendor's name has to be said.
const apis = {
  'openai-chat': {
    models: (baseURL, apiKey) => createOpenAI({ baseURL, apiKey }).chat,
    think: { openai: { forceReasoning: true, reasoningEffort: 'low' } },
  },
  'openai-compatible': {
    models: (baseURL, apiKey) =>
      createOpenAICompatible({ name: 'gateway', baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }),
    think: { gateway: { reasoningEffort: 'low' } },
  },
  'openai-responses': {
    models: (baseURL, apiKey) => createOpenAI({ baseURL, apiKey }),
    think: { openai: { forceReasoning: true, reasoningEffort: 'low', reasoningSummary: 'auto' } },
  },
  anthropic: {
    models: (baseURL, apiKey) => createAnthropic({ baseURL: `${baseURL}/v1`, apiKey }),
    options: { anthropic: { structuredOutputMode: 'outputFormat' } },
    think: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
  },
  gemini: {
    models: (baseURL, apiKey) => createGoogle({ baseURL: `${baseURL}/v1beta`, apiKey }),
    think: { google: { thinkingConfig: { includeThoughts: true, thinkingLevel: 'low' } } },
  },
};

globalThis.AI_SDK_LOG_WARNINGS = false;

const weather = { description: ask.description, inputSchema: jsonSchema(ask.city) };
const weatherTools = { get_weather: tool(weather) };

// What is asked, with the thread of the settings that every call shares.
const settings = ({ models, options }, model, more = {}) => ({
  model: models(model), maxRetries: 0, maxOutputTokens: ask.most, providerOptions: options, ...more,
});
const hello = (client, model, more) => settings(client, model, { system: ask.system, prompt: ask.hello, ...more });
// Anthropic's provider takes the limit without the thinking.
const thinking = (client) => ({ providerOptions: client.think, maxOutputTokens: ask.mostThinking - (client.api === 'anthropic' ? 1024 : 0) });

const whole = generateText;

// A stream that is read to its end and has then what a whole answer has.
async function streamed(options) {
  const result = streamText({ ...options, onError: () => {} });
  for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
  return {
    text: await result.text, toolCalls: await result.toolCalls, finishReason: await result.finishReason, usage: await result.usage,
    reasoningText: await result.reasoningText, response: await result.response,
  };
}

async function text(client, model) {
  const { text, finishReason } = await whole(hello(client, model));
  return { text, finish: finishReason };
}

async function stream(client, model) {
  const result = streamText(hello(client, model));
  const deltas = await ask.collect(result.textStream);
  return { deltas, text: await result.text, finish: await result.finishReason };
}

async function turns(client, model) {
  const messages = [{ role: 'user', content: ask.hello }];
  const round = (turn) => turn(settings(client, model, { system: ask.system, messages }));
  const first = await round(whole);
  messages.push(...first.response.messages, { role: 'user', content: ask.one });
  const second = await round(streamed);
  return { texts: [first.text, second.text] };
}

const twoRounds = (question, turn, more = () => ({})) => async (client, model) => {
  const messages = [{ role: 'user', content: question }];
  const round = () => turn(settings(client, model, { messages, tools: weatherTools, ...more(client) }));
  const first = await round();
  messages.push(...first.response.messages, {
    role: 'tool',
    content: first.toolCalls.map(({ toolCallId, toolName, input }) => ({
      type: 'tool-result', toolCallId, toolName, output: { type: 'json', value: ask.weather(input.city) },
    })),
  });
  const second = await round();
  return {
    calls: first.toolCalls.map(({ toolName, input }) => ask.callReport(toolName, input)),
    finish: [first.finishReason, second.finishReason],
    text: second.text,
  };
};

// The loop over tools.
async function runner(client, model) {
  const asked = [];
  const execute = ({ city }) => {
    asked.push(city);
    return ask.weather(city);
  };
  const { text } = await whole(
    settings(client, model, { prompt: ask.one, tools: { get_weather: tool({ ...weather, execute }) }, stopWhen: isStepCount(3) }),
  );
  return { asked, text };
}

async function structured(client, model) {
  const { output } = await whole(hello(client, model, { output: Output.object({ schema: ask.person }) }));
  return { parsed: output };
}

// What the provider for Anthropic does unless it is told otherwise or knows the model.
const structuredTool = (client, model) => structured({ ...client, options: { anthropic: { structuredOutputMode: 'jsonTool' } } }, model);

async function image(client, model) {
  const content = [
    { type: 'text', text: ask.picture },
    { type: 'file', mediaType: 'image/png', data: ask.pixel },
  ];
  const { text } = await whole(settings(client, model, { system: ask.system, messages: [{ role: 'user', content }] }));
  return { text };
}

const reasoning = (turn) => async (client, model) => {
  const { text, reasoningText } = await turn(hello(client, model, thinking(client)));
  return { reasoning: reasoningText, text };
};

const usage = (turn) => async (client, model) => {
  const { usage: u } = await turn(hello(client, model));
  return ask.usageReport(u.inputTokens, u.inputTokenDetails.cacheReadTokens, u.outputTokens, u.outputTokenDetails.reasoningTokens);
};

async function problem(client, model) {
  try {
    await whole(hello(client, model));
  } catch (e) {
    if (!e.statusCode) throw e;
    const delay = (e.data?.error?.details ?? JSON.parse(e.responseBody).error.details ?? []).map?.((d) => d.retryDelay ?? '').join('');
    return ask.problemReport(e, e.statusCode, e.message, e.responseHeaders['retry-after'] ?? delay?.replace('s', ''));
  }
  return { error: null };
}

// The text of a stream. The AI SDK gives an error as a part of the stream.
async function* texts(client, model, more) {
  for await (const part of streamText({ ...hello(client, model, more), onError: () => {} }).fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') yield part.text;
  }
}

async function cancel(client, model) {
  const controller = new AbortController();
  for await (const text of texts(client, model, { abortSignal: controller.signal })) {
    controller.abort();
    return { text };
  }
}

export async function load(api) {
  const { models, options, think } = apis[api];
  return {
    connect: (baseURL, key) => ({ api, models: models(baseURL, key), options, think: think && { ...options, ...think } }),
    features: {
      text, stream, turns, tools: twoRounds(ask.one, whole), parallel: twoRounds(ask.two, streamed),
      sealed: ask.both(twoRounds(ask.one, whole, thinking), twoRounds(ask.one, streamed, thinking)),
      runner, structured, structured_tool: structuredTool, image, reasoning: ask.both(reasoning(whole), reasoning(streamed)), usage: ask.both(usage(whole), usage(streamed)),
      error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel,
    },
  };
}
