// Features of OpenAI's SDK on Responses.

import * as ask from './ask.mjs';
import { connectWith, models, problem } from './openai_chat.mjs';

const weather = { type: 'function', name: 'get_weather', description: ask.description, strict: true, parameters: ask.city };

const think = { reasoning: { effort: 'low', summary: 'auto' }, max_output_tokens: ask.mostThinking };
const sealing = { ...think, store: false, include: ['reasoning.encrypted_content'] };

const body = (model, more = {}) => ({
  model,
  input: ask.hello,
  instructions: ask.system,
  max_output_tokens: ask.most,
  ...more,
});
const create = (client, model, more) => client.responses.create(body(model, more));
const final = (client, model, more) => client.responses.stream(body(model, more)).finalResponse();

async function text(client, model) {
  const { output_text, status } = await create(client, model);
  return { text: output_text, finish: status };
}

async function stream(client, model) {
  const deltas = [];
  const running = client.responses.stream(body(model));
  running.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
  const { output_text, status } = await running.finalResponse();
  return { deltas, text: output_text, finish: status };
}

const twoRounds = (question, complete, extra = {}) => async (client, model) => {
  const input = [{ role: 'user', content: question }];
  const more = { input, instructions: null, tools: [weather], ...extra };
  const first = await complete(client, model, more);
  const calls = first.output.filter((item) => item.type === 'function_call');
  for (const { parsed_arguments, ...item } of first.output) input.push(item);
  for (const c of calls) {
    const output = ask.weatherJSON(JSON.parse(c.arguments).city);
    input.push({ type: 'function_call_output', call_id: c.call_id, output });
  }
  const second = await complete(client, model, more);
  return {
    calls: calls.map((c) => ask.callReport(c.name, JSON.parse(c.arguments))),
    finish: [first.status, second.status],
    text: second.output_text,
  };
};

const runnerOf = (packageName) => async (client, model) => {
  const { ResponsesToolRunner } = await import(`${packageName}/helpers/responses-tool-runner`);
  const asked = [];
  const execute = ({ city }) => {
    asked.push(city);
    return ask.weatherJSON(city);
  };
  const run = new ResponsesToolRunner({ functions: [{ tool: weather, execute }] });
  const { output_text } = await run.run(client, { model, input: ask.one, max_output_tokens: ask.most });
  return { asked, text: output_text };
};

async function image(client, model) {
  const content = [
    { type: 'input_text', text: ask.picture },
    { type: 'input_image', detail: 'auto', image_url: `data:image/png;base64,${ask.pixel}` },
  ];
  return { text: (await create(client, model, { input: [{ role: 'user', content }] })).output_text };
}

const thoughts = (r) => ({
  reasoning: r.output.flatMap((item) => (item.type === 'reasoning' ? item.summary.map((s) => s.text) : [])).join(''),
  text: r.output_text,
});

async function reasoning(client, model) {
  return { whole: thoughts(await create(client, model, think)), stream: thoughts(await final(client, model, think)) };
}

const tokens = (u) =>
  ask.usageReport(
    u.input_tokens,
    u.input_tokens_details.cached_tokens,
    u.output_tokens,
    u.output_tokens_details.reasoning_tokens,
  );

const usage = async (client, model) => ({
  whole: tokens((await create(client, model)).usage),
  stream: tokens((await final(client, model)).usage),
});

async function* texts(client, model) {
  for await (const event of await create(client, model, { stream: true })) {
    if (event.type === 'response.output_text.delta') yield event.delta;
  }
}

export async function load(packageName) {
  const { default: OpenAI } = await import(packageName);
  const { zodTextFormat } = await import(`${packageName}/helpers/zod`);
  const structured = async (client, model) => {
    const r = await client.responses.parse(body(model, { text: { format: zodTextFormat(ask.person, 'person') } }));
    return { parsed: r.output_parsed };
  };
  return {
    connect: connectWith(OpenAI),
    features: {
      text, stream, tools: twoRounds(ask.one, create), parallel: twoRounds(ask.two, final),
      sealed: ask.both(twoRounds(ask.one, create, sealing), twoRounds(ask.one, final, sealing)),
      runner: runnerOf(packageName),
      structured, image, reasoning, usage,
      error_404: problem(create), error_unknown: problem(create), error_429: problem(create),
      cut: (client, model) => ask.cutReport(texts(client, model)),
      cancel: (client, model) => ask.firstReport(texts(client, model)),
      models,
    },
  };
}
