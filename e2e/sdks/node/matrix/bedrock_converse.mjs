// Features of AWS's SDK with the Converse API.

import { NodeHttpHandler } from '@smithy/node-http-handler';
import { z } from 'zod';
import * as ask from './ask.mjs';

const tools = { toolConfig: { tools: [{ toolSpec: { name: 'get_weather', description: ask.description, inputSchema: { json: ask.city } } }] } };
const think = {
  additionalModelRequestFields: { thinking: { type: 'enabled', budget_tokens: 1024 } },
  inferenceConfig: { maxTokens: ask.mostThinking },
};

const user = (...content) => ({ role: 'user', content });
const request = (model, more = {}) => ({
  modelId: model,
  messages: [user({ text: ask.hello })],
  system: [{ text: ask.system }],
  inferenceConfig: { maxTokens: ask.most },
  ...more,
});

const textOf = (message) => message.content.map((b) => b.text ?? '').join('');

const textIn = (event) => event.contentBlockDelta?.delta?.text;

function addDelta(block, { text, toolUse, reasoningContent }) {
  if (text !== undefined) block.text = (block.text ?? '') + text;
  if (toolUse) block.toolUse.input += toolUse.input;
  if (!reasoningContent) return;
  block.reasoningContent ??= { reasoningText: { text: '' } };
  const thought = block.reasoningContent.reasoningText;
  thought.text += reasoningContent.text ?? '';
  if (reasoningContent.signature) thought.signature = reasoningContent.signature;
}

// collected returns a stream as a message. The SDK has no helper for it.
async function collected(stream) {
  const content = [];
  let stopReason, usage;
  for await (const event of stream) {
    const { contentBlockStart: start, contentBlockDelta: delta, messageStop, metadata } = event;
    if (start) content[start.contentBlockIndex] = { toolUse: { ...start.start.toolUse, input: '' } };
    if (delta) addDelta((content[delta.contentBlockIndex] ??= {}), delta.delta);
    stopReason = messageStop?.stopReason ?? stopReason;
    usage = metadata?.usage ?? usage;
  }
  for (const { toolUse } of content) if (toolUse) toolUse.input = JSON.parse(toolUse.input || '{}');
  return { message: { role: 'assistant', content }, stopReason, usage };
}

const thoughts = ({ message }) => ({
  reasoning: message.content.map((b) => b.reasoningContent?.reasoningText?.text ?? '').join(''),
  text: textOf(message),
});

// The API does not count what was thought.
const tokens = ({ usage: u }) => {
  const cached = u.cacheReadInputTokens ?? 0;
  return ask.usageReport(u.inputTokens + cached + (u.cacheWriteInputTokens ?? 0), cached, u.outputTokens, 0);
};

export async function load(packageName) {
  const { BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand, CountTokensCommand } = await import(packageName);

  async function create(client, model, more) {
    const { output, stopReason, usage } = await client.send(new ConverseCommand(request(model, more)));
    return { message: output.message, stopReason, usage };
  }
  const events = async (client, model, more) => (await client.send(new ConverseStreamCommand(request(model, more)))).stream;
  const final = async (client, model, more) => collected(await events(client, model, more));

  async function text(client, model) {
    const { message, stopReason } = await create(client, model);
    return { text: textOf(message), finish: stopReason };
  }

  async function stream(client, model) {
    const deltas = [];
    let finish;
    for await (const event of await events(client, model)) {
      if (textIn(event)) deltas.push(textIn(event));
      finish = event.messageStop?.stopReason ?? finish;
    }
    return { deltas, text: deltas.join(''), finish };
  }

  const twoRounds = (question, complete, extra = {}) => async (client, model) => {
    const messages = [user({ text: question })];
    const more = { messages, system: undefined, ...tools, ...extra };
    const first = await complete(client, model, more);
    const calls = first.message.content.filter((b) => b.toolUse).map((b) => b.toolUse);
    messages.push(first.message);
    messages.push(user(...calls.map((c) => ({ toolResult: { toolUseId: c.toolUseId, content: [{ json: ask.weather(c.input.city) }] } }))));
    const second = await complete(client, model, more);
    return {
      calls: calls.map((c) => ask.callReport(c.name, c.input)),
      finish: [first.stopReason, second.stopReason],
      text: textOf(second.message),
    };
  };

  async function structured(client, model) {
    const schema = JSON.stringify(z.toJSONSchema(ask.person));
    const textFormat = { type: 'json_schema', structure: { jsonSchema: { name: 'person', schema } } };
    const { message } = await create(client, model, { outputConfig: { textFormat } });
    return { parsed: ask.person.parse(JSON.parse(textOf(message))) };
  }

  async function image(client, model) {
    const picture = { image: { format: 'png', source: { bytes: Buffer.from(ask.pixel, 'base64') } } };
    return { text: textOf((await create(client, model, { messages: [user({ text: ask.picture }, picture)] })).message) };
  }

  async function problem(client, model) {
    try {
      await create(client, model);
    } catch (e) {
      if (!e.$metadata) throw e;
      return ask.problemReport(e, e.$metadata.httpStatusCode, e.message, e.$response?.headers?.['retry-after']);
    }
    return { error: null };
  }

  async function* texts(client, model) {
    for await (const event of await events(client, model)) if (textIn(event)) yield textIn(event);
  }

  async function cancel(client, model) {
    const left = new AbortController();
    const { stream } = await client.send(new ConverseStreamCommand(request(model)), { abortSignal: left.signal });
    for await (const event of stream) {
      if (!textIn(event)) continue;
      left.abort();
      return { text: textIn(event) };
    }
    return { text: '' };
  }

  async function countTokens(client, model) {
    const { messages, system } = request(model);
    try {
      return { tokens: (await client.send(new CountTokensCommand({ modelId: model, input: { converse: { messages, system } } }))).inputTokens };
    } catch (e) {
      if (e.$metadata?.httpStatusCode !== 501) throw e;
      return { refused: true };
    }
  }

  return {
    connect: (endpoint, token) => new BedrockRuntimeClient({
      endpoint, region: 'us-east-1', token: { token }, authSchemePreference: ['httpBearerAuth'], maxAttempts: 1,
      requestHandler: new NodeHttpHandler({ requestTimeout: 20_000 }),
    }),
    features: {
      text, stream, tools: twoRounds(ask.one, create), parallel: twoRounds(ask.two, final),
      sealed: ask.both(twoRounds(ask.one, create, think), twoRounds(ask.one, final, think)), structured, image,
      reasoning: ask.both(async (client, model) => thoughts(await create(client, model, think)), async (client, model) => thoughts(await final(client, model, think))),
      usage: ask.both(async (client, model) => tokens(await create(client, model)), async (client, model) => tokens(await final(client, model))),
      error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel, count_tokens: countTokens,
    },
  };
}
