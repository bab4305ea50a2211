// Features of Google's SDK.

import { z } from 'zod';
import * as ask from './ask.mjs';

const declaration = { name: 'get_weather', description: ask.description, parametersJsonSchema: ask.city };

const body = (model, contents = ask.hello, more = {}) => ({
  model,
  contents,
  config: { systemInstruction: ask.system, maxOutputTokens: ask.most, ...more },
});
const create = (client, model, contents, more) => client.models.generateContent(body(model, contents, more));
const streamed = (client, model, contents, more) => client.models.generateContentStream(body(model, contents, more));

const think = { maxOutputTokens: ask.mostThinking, thinkingConfig: { includeThoughts: true, thinkingLevel: 'LOW' } };

const turn = (parts, finish) => ({ parts, finish });

async function wholeTurn(client, model, contents, more) {
  const [{ content, finishReason }] = (await create(client, model, contents, more)).candidates;
  return turn(content.parts, finishReason);
}

async function streamedTurn(client, model, contents, more) {
  const all = turn([], '');
  for await (const chunk of await streamed(client, model, contents, more)) {
    const [{ content, finishReason }] = chunk.candidates;
    all.parts.push(...(content?.parts ?? []));
    all.finish = finishReason ?? all.finish;
  }
  return all;
}

async function text(client, model) {
  const r = await create(client, model);
  return { text: r.text, finish: r.candidates[0].finishReason };
}

// A chat keeps what was streamed, which is what this SDK has of an accumulator.
async function stream(client, model) {
  const chat = client.chats.create({ model, config: body(model).config });
  const deltas = [];
  let finish = '';
  for await (const chunk of await chat.sendMessageStream({ message: ask.hello })) {
    if (chunk.text) deltas.push(chunk.text);
    finish = chunk.candidates[0].finishReason ?? finish;
  }
  const kept = chat.getHistory().filter((c) => c.role === 'model').flatMap((c) => c.parts.map((p) => p.text ?? ''));
  return { deltas, text: kept.join(''), finish };
}

const twoRounds = (question, complete, extra = {}) => async (client, model) => {
  const contents = [{ role: 'user', parts: [{ text: question }] }];
  const more = { systemInstruction: undefined, tools: [{ functionDeclarations: [declaration] }], ...extra };
  const first = await complete(client, model, contents, more);
  const calls = first.parts.filter((p) => p.functionCall).map((p) => p.functionCall);
  contents.push({ role: 'model', parts: first.parts });
  contents.push({
    role: 'user',
    parts: calls.map(({ id, name, args }) => ({ functionResponse: { id, name, response: ask.weather(args.city) } })),
  });
  const second = await complete(client, model, contents, more);
  return {
    calls: calls.map(({ name, args }) => ask.callReport(name, args)),
    finish: [first.finish, second.finish],
    text: second.parts.map((p) => p.text ?? '').join(''),
  };
};

// Automatic function calling.
async function runner(client, model) {
  const asked = [];
  const callable = {
    tool: async () => ({ functionDeclarations: [declaration] }),
    callTool: async (calls) =>
      calls.map(({ id, name, args }) => {
        asked.push(args.city);
        return { functionResponse: { id, name, response: ask.weather(args.city) } };
      }),
  };
  const r = await create(client, model, ask.one, { systemInstruction: undefined, tools: [callable] });
  return { asked, text: r.text };
}

async function structured(client, model) {
  const responseJsonSchema = z.toJSONSchema(ask.person);
  const r = await create(client, model, ask.hello, { responseMimeType: 'application/json', responseJsonSchema });
  return { parsed: ask.person.parse(JSON.parse(r.text)) };
}

async function image(client, model) {
  const contents = [{ text: ask.picture }, { inlineData: { mimeType: 'image/png', data: ask.pixel } }];
  return { text: (await create(client, model, contents)).text };
}

const join = (parts) => parts.map((p) => p.text ?? '').join('');
const thoughts = ({ parts }) => ({
  reasoning: join(parts.filter((p) => p.thought)),
  text: join(parts.filter((p) => !p.thought)),
});

async function reasoning(client, model) {
  return {
    whole: thoughts(await wholeTurn(client, model, ask.hello, think)),
    stream: thoughts(await streamedTurn(client, model, ask.hello, think)),
  };
}

const tokens = (u) =>
  ask.usageReport(
    u.promptTokenCount,
    u.cachedContentTokenCount,
    u.candidatesTokenCount + (u.thoughtsTokenCount ?? 0),
    u.thoughtsTokenCount,
  );

async function usage(client, model) {
  const whole = tokens((await create(client, model)).usageMetadata);
  let last;
  for await (const chunk of await streamed(client, model)) last = chunk.usageMetadata ?? last;
  return { whole, stream: tokens(last) };
}

// The SDK keeps of an error's body only its text, as the message.
async function problem(client, model) {
  try {
    await create(client, model);
  } catch (e) {
    if (!e.status) throw e;
    const { error } = JSON.parse(e.message);
    const delay = (error.details ?? []).map((d) => d.retryDelay ?? '').join('');
    return ask.problemReport(e, e.status, error.message, delay.replace('s', ''));
  }
  return { error: null };
}

async function* texts(client, model) {
  for await (const chunk of await streamed(client, model)) yield chunk.text ?? '';
}

async function cancel(client, model) {
  const controller = new AbortController();
  const chunks = await streamed(client, model, ask.hello, { abortSignal: controller.signal });
  const { value } = await chunks.next();
  controller.abort();
  return { text: value.text };
}

async function models(client) {
  const found = await ask.collect(await client.models.list());
  return {
    ids: found.map((m) => m.name.replace('models/', '')).sort(),
    typed: found.every((m) => m.displayName && m.supportedActions.includes('generateContent')),
  };
}

export async function load(packageName) {
  const { GoogleGenAI } = await import(packageName);
  return {
    connect: (baseUrl, apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl, timeout: 20_000 } }),
    features: {
      text, stream, tools: twoRounds(ask.one, wholeTurn), parallel: twoRounds(ask.two, streamedTurn),
      sealed: ask.both(twoRounds(ask.one, wholeTurn, think), twoRounds(ask.one, streamedTurn, think)), runner, structured,
      image, reasoning, usage, error_404: problem, error_unknown: problem, error_429: problem,
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel,
      models,
    },
  };
}
