// Requests of Chat, Responses, Messages, Gemini and Converse, from one form of a conversation.
import { callsOf, type Answer, type Dialect } from './answers';

export type Image = { name: string; media: string; data: string }; // data: base64
export type Tool = { name: string; description?: string; parameters?: unknown };
export type ToolResult = { id: string; name: string; text: string };

// Input is what somebody sends: a message, or the results of the tools that the model has called.
export type Input = { text: string; images: Image[] } | { results: ToolResult[] };

// Turn is an input with its answer.
export type Turn = { dialect: Dialect; input: Input; answer: Answer };

export type Settings = { dialect: Dialect; model: string; stream: boolean; system: string; maxTokens: number; tools: Tool[] };

export type Request = { path: string; body: Record<string, unknown> };

export const titles: Record<Dialect, string> = { 'openai-chat': 'Chat Completions', 'openai-responses': 'Responses', anthropic: 'Messages', gemini: 'Gemini', converse: 'Converse' };
export const dialects = Object.keys(titles) as Dialect[];

const dataURL = (i: Image) => `data:${i.media};base64,${i.data}`;
const isJSON = (text: string) => {
  try {
    return [JSON.parse(text)];
  } catch {
    return undefined;
  }
};
const argsOf = (text: string): unknown => isJSON(text || '{}')?.[0] ?? {};
const textOf = (a: Answer) => a.blocks.filter((b) => b.kind === 'text').map((b) => b.text).join('');

// asks has the members of an input and of an answer in each dialect. An answer in the same dialect is
// repeated as it came, with its reasoning; from another dialect only its text and its calls are.
const asks: Record<Dialect, { input: (i: Input) => unknown[]; answer: (a: Answer, same: boolean) => unknown[] }> = {
  'openai-chat': {
    input: (i) => ('results' in i
      ? i.results.map((r) => ({ role: 'tool', tool_call_id: r.id, content: r.text }))
      : [{ role: 'user', content: i.images.length ? [...i.images.map((m) => ({ type: 'image_url', image_url: { url: dataURL(m) } })), { type: 'text', text: i.text }] : i.text }]),
    answer: (a) => [{
      role: 'assistant', content: textOf(a) || null,
      ...(callsOf(a).length && { tool_calls: callsOf(a).map((c) => ({ id: c.id, type: 'function', function: { name: c.name, arguments: c.text || '{}' } })) }),
    }],
  },
  'openai-responses': {
    input: (i) => ('results' in i
      ? i.results.map((r) => ({ type: 'function_call_output', call_id: r.id, output: r.text }))
      : [{ role: 'user', content: i.images.length ? [...i.images.map((m) => ({ type: 'input_image', detail: 'auto', image_url: dataURL(m) })), { type: 'input_text', text: i.text }] : i.text }]),
    answer: (a, same) => (same && a.native.length ? a.native : [
      ...(textOf(a) ? [{ role: 'assistant', content: textOf(a) }] : []),
      ...callsOf(a).map((c) => ({ type: 'function_call', call_id: c.id, name: c.name, arguments: c.text || '{}' })),
    ]),
  },
  anthropic: {
    input: (i) => [{
      role: 'user',
      content: 'results' in i ? i.results.map((r) => ({ type: 'tool_result', tool_use_id: r.id, content: r.text }))
        : i.images.length ? [...i.images.map((m) => ({ type: 'image', source: { type: 'base64', media_type: m.media, data: m.data } })), { type: 'text', text: i.text }]
          : i.text,
    }],
    answer: (a, same) => [{
      role: 'assistant',
      content: same && a.native.length ? a.native : [
        ...(textOf(a) ? [{ type: 'text', text: textOf(a) }] : []),
        ...callsOf(a).map((c) => ({ type: 'tool_use', id: c.id, name: c.name, input: argsOf(c.text) })),
      ],
    }],
  },
  gemini: {
    input: (i) => [{
      role: 'user',
      parts: 'results' in i ? i.results.map((r) => ({ functionResponse: { ...(r.id && { id: r.id }), name: r.name, response: { result: r.text } } }))
        : [...i.images.map((m) => ({ inlineData: { mimeType: m.media, data: m.data } })), { text: i.text }],
    }],
    answer: (a, same) => [{
      role: 'model',
      parts: same && a.native.length ? a.native : [
        ...(textOf(a) ? [{ text: textOf(a) }] : []),
        ...callsOf(a).map((c) => ({ functionCall: { ...(c.id && { id: c.id }), name: c.name, args: argsOf(c.text) } })),
      ],
    }],
  },
  converse: {
    input: (i) => [{
      role: 'user',
      content: 'results' in i ? i.results.map((r) => ({ toolResult: { toolUseId: r.id, content: [{ text: r.text }] } }))
        : [...i.images.map((m) => ({ image: { format: m.media.replace('image/', ''), source: { bytes: m.data } } })), ...(i.text.trim() ? [{ text: i.text }] : [])],
    }],
    answer: (a, same) => [{
      role: 'assistant',
      content: same && a.native.length ? a.native : [
        ...(textOf(a) ? [{ text: textOf(a) }] : []),
        ...callsOf(a).map((c) => ({ toolUse: { toolUseId: c.id, name: c.name, input: argsOf(c.text) } })),
      ],
    }],
  },
};

// build returns the request of an input after the turns of a conversation.
export function build(s: Settings, turns: Turn[], input: Input): Request {
  const form = asks[s.dialect];
  const list = [...turns.flatMap((t) => [...form.input(t.input), ...form.answer(t.answer, t.dialect === s.dialect)]), ...form.input(input)];
  const { model, stream, system, maxTokens, tools } = s;
  const parameters = (t: Tool) => t.parameters ?? { type: 'object', properties: {} };
  switch (s.dialect) {
    case 'openai-chat':
      return { path: '/v1/chat/completions', body: {
        model, messages: [...(system ? [{ role: 'system', content: system }] : []), ...list], max_completion_tokens: maxTokens,
        ...(tools.length && { tools: tools.map((t) => ({ type: 'function', function: { name: t.name, description: t.description, parameters: parameters(t) } })) }),
        ...(stream && { stream, stream_options: { include_usage: true } }),
      } };
    case 'openai-responses':
      return { path: '/v1/responses', body: {
        model, ...(system && { instructions: system }), input: list, max_output_tokens: maxTokens, store: false,
        ...(tools.length && { tools: tools.map((t) => ({ type: 'function', name: t.name, description: t.description, parameters: parameters(t), strict: false })) }),
        ...(stream && { stream }),
      } };
    case 'anthropic':
      return { path: '/v1/messages', body: {
        model, max_tokens: maxTokens, ...(system && { system }), messages: list,
        ...(tools.length && { tools: tools.map((t) => ({ name: t.name, description: t.description, input_schema: parameters(t) })) }),
        ...(stream && { stream }),
      } };
    case 'gemini':
      return { path: '/v1beta/models/' + model.split('/').map(encodeURIComponent).join('/').replaceAll("'", '%27') + (stream ? ':streamGenerateContent?alt=sse' : ':generateContent'), body: {
        ...(system && { systemInstruction: { parts: [{ text: system }] } }), contents: list,
        ...(tools.length && { tools: [{ functionDeclarations: tools.map((t) => ({ name: t.name, description: t.description, parametersJsonSchema: parameters(t) })) }] }),
        generationConfig: { maxOutputTokens: maxTokens },
      } };
    case 'converse':
      return { path: '/model/' + encodeURIComponent(model).replaceAll("'", '%27') + (stream ? '/converse-stream' : '/converse'), body: {
        ...(system && { system: [{ text: system }] }), messages: list,
        ...(tools.length && { toolConfig: { tools: tools.map((t) => ({ toolSpec: { name: t.name, description: t.description, inputSchema: { json: parameters(t) } } })) } }),
        inferenceConfig: { maxTokens },
      } };
  }
}

export const toolExample = JSON.stringify([{
  name: 'get_weather', description: 'The weather in a city now.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}], null, 2);

// readTools reads the definitions of tools, or says what is wrong with them.
export function readTools(text: string): { tools: Tool[]; wrong?: string } {
  if (!text.trim()) return { tools: [] };
  const list = isJSON(text)?.[0] as unknown;
  if (!Array.isArray(list)) return { tools: [], wrong: 'The tools are not a JSON array.' };
  if (!list.every((t: unknown) => typeof t === 'object' && t !== null && typeof (t as Tool).name === 'string')) return { tools: [], wrong: 'Every tool needs a name.' };
  return { tools: list as Tool[] };
}
