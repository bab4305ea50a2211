// Answers of Chat, Responses, Messages, Gemini and Converse, read from a body or from the events of a stream.

export type Dialect = 'openai-chat' | 'openai-responses' | 'anthropic' | 'gemini' | 'converse';

// Block is a part of an answer. The text of a tool call is its arguments, as JSON.
export type Block = { kind: 'text' | 'reasoning'; text: string } | { kind: 'tool'; id: string; name: string; text: string; at?: unknown };
type Call = Extract<Block, { kind: 'tool' }>;

export type Answer = {
  blocks: Block[];
  native: unknown[]; // the parts of the answer as they are repeated in the next request
  usage: Record<string, number>;
  finish: string;
  error: string;
};

export const newAnswer = (): Answer => ({ blocks: [], native: [], usage: {}, finish: '', error: '' });

export const callsOf = (a: Answer) => a.blocks.filter((b) => b.kind === 'tool');

// Any is JSON of an upstream, of which nothing is certain.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Any = any;

// EventReader splits a stream into the data of its events. Parts may end anywhere.
export class EventReader {
  private rest = '';

  read(text: string): string[] {
    this.rest += text;
    const found: string[] = [];
    for (let end = /\r?\n\r?\n/.exec(this.rest); end; end = /\r?\n\r?\n/.exec(this.rest)) {
      const data = this.rest.slice(0, end.index).split(/\r?\n/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
      if (data.length) found.push(data.join('\n'));
      this.rest = this.rest.slice(end.index + end[0].length);
    }
    return found;
  }
}

// FrameReader splits a stream of Converse, which has Amazon's binary frames, into events. Each is JSON with
// the name of the event as its only member. Parts may end anywhere.
export class FrameReader {
  private rest = new Uint8Array();
  private text = new TextDecoder();

  read(part: Uint8Array): string[] {
    const all = new Uint8Array(this.rest.length + part.length);
    all.set(this.rest);
    all.set(part, this.rest.length);
    const found: string[] = [];
    let at = 0;
    for (;;) {
      const prelude = all.length - at < 12 ? undefined : new DataView(all.buffer, at);
      const length = prelude?.getUint32(0) ?? Infinity;
      if (all.length - at < length) break;
      const payload = at + 12 + prelude!.getUint32(4);
      const name = this.nameOf(all.subarray(at + 12, payload));
      found.push(`{${JSON.stringify(name)}:${this.text.decode(all.subarray(payload, at + length - 4)) || '{}'}}`);
      at += Math.max(length, 16);
    }
    this.rest = all.slice(at);
    return found;
  }

  // nameOf reads the name of an event from the headers of its frame, which are all texts.
  private nameOf(headers: Uint8Array): string {
    for (let at = 0; at < headers.length;) {
      const value = at + 1 + headers[at]! + 3;
      const end = value + headers[value - 2]! * 256 + headers[value - 1]!;
      if (/^:(event|exception)-type$/.test(this.text.decode(headers.subarray(at + 1, value - 3)))) return this.text.decode(headers.subarray(value, end));
      at = end;
    }
    return '';
  }
}

// readEvent adds the data of an event to an answer.
export function readEvent(dialect: Dialect, a: Answer, data: string) {
  if (data === '[DONE]') return;
  read(a, data, (v) => events[dialect](a, v));
}

// readBody reads a whole answer.
export function readBody(dialect: Dialect, a: Answer, text: string) {
  read(a, text, (v) => bodies[dialect](a, v));
}

function read(a: Answer, text: string, use: (v: Any) => void) {
  try {
    const v: Any = JSON.parse(text);
    if (v?.error) a.error = errorOf(v);
    else use(v);
  } catch {
    a.error = 'the gateway sent something that this page cannot read; see the raw bytes';
  }
}

// errorOf returns the message of an error in any dialect, or of a problem of the admin API.
export function errorOf(v: Any): string {
  const e = v?.error ?? v;
  const list: Any[] = v?.errors ?? [];
  return [typeof e === 'string' ? e : String(e?.message ?? v?.detail ?? 'the request failed'), ...list.map((m) => `${m.location}: ${m.message}`)].join('; ');
}

// add appends text to the last block, if it is of this kind.
function add(a: Answer, kind: 'text' | 'reasoning', text: unknown) {
  if (typeof text !== 'string' || !text) return;
  const last = a.blocks.at(-1);
  if (last?.kind === kind) last.text += text;
  else a.blocks.push({ kind, text });
}

// callAt returns the tool call at a place of the stream, which it adds if it is new.
function callAt(a: Answer, at: unknown): Call {
  const found = a.blocks.find((b): b is Call => b.kind === 'tool' && b.at === at);
  if (found) return found;
  const call: Call = { kind: 'tool', id: '', name: '', text: '', at };
  a.blocks.push(call);
  return call;
}

// count keeps the numbers of tokens that are there.
function count(a: Answer, tokens: Record<string, unknown>) {
  for (const [name, n] of Object.entries(tokens)) if (typeof n === 'number' && n > 0) a.usage[name] = n;
}

function chatMessage(a: Answer, m: Any) {
  add(a, 'reasoning', m?.reasoning_content ?? m?.reasoning);
  add(a, 'text', m?.content);
  add(a, 'text', m?.refusal);
  for (const [i, t] of (m?.tool_calls ?? []).entries()) {
    const call = callAt(a, t.index ?? i);
    call.id ||= t.id ?? '';
    call.name ||= t.function?.name ?? '';
    call.text += t.function?.arguments ?? '';
  }
}

function chat(a: Answer, v: Any) {
  const choice = v.choices?.[0];
  chatMessage(a, choice?.delta ?? choice?.message);
  a.finish = choice?.finish_reason ?? a.finish;
  const u = v.usage;
  count(a, { input: u?.prompt_tokens, output: u?.completion_tokens, cached: u?.prompt_tokens_details?.cached_tokens, reasoning: u?.completion_tokens_details?.reasoning_tokens });
}

function response(a: Answer, r: Any) {
  a.blocks = [];
  a.native = (r.output ?? []);
  for (const item of a.native as Any[]) {
    if (item.type === 'reasoning') for (const p of [...(item.summary ?? []), ...(item.content ?? [])]) add(a, 'reasoning', p.text);
    if (item.type === 'message') for (const p of item.content ?? []) add(a, 'text', p.text ?? p.refusal);
    if (item.type === 'function_call') a.blocks.push({ kind: 'tool', id: item.call_id, name: item.name, text: item.arguments ?? '' });
  }
  a.finish = r.incomplete_details?.reason ?? r.status ?? a.finish;
  const u = r.usage;
  count(a, { input: u?.input_tokens, output: u?.output_tokens, cached: u?.input_tokens_details?.cached_tokens, reasoning: u?.output_tokens_details?.reasoning_tokens });
  if (r.status === 'failed') a.error = errorOf(r);
}

function messageUsage(a: Answer, u: Any) {
  count(a, { input: u?.input_tokens, output: u?.output_tokens, cached: u?.cache_read_input_tokens, 'written to cache': u?.cache_creation_input_tokens });
}

// showContent shows the content blocks of a message.
function showContent(a: Answer) {
  a.blocks = [];
  for (const b of a.native as Any[]) {
    if (b?.type === 'text') add(a, 'text', b.text);
    else if (b?.type === 'thinking') add(a, 'reasoning', b.thinking);
    else if (b?.type === 'redacted_thinking') add(a, 'reasoning', '(redacted)');
    else if (b?.type === 'tool_use') a.blocks.push({ kind: 'tool', id: b.id, name: b.name, text: b.json ?? JSON.stringify(b.input) });
  }
}

// argumentsOf reads arguments, which are cut if the model has reached its limit.
function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text || '{}');
  } catch {
    return {};
  }
}

function messageEvent(a: Answer, v: Any) {
  const b: Any = a.native[v.index];
  switch (v.type) {
    case 'message_start':
      messageUsage(a, v.message?.usage);
      break;
    case 'content_block_start':
      a.native[v.index] = v.content_block?.type === 'tool_use' ? { ...v.content_block, json: '' } : { ...v.content_block };
      break;
    case 'content_block_delta':
      if (!b) break;
      if (v.delta.type === 'text_delta') b.text += v.delta.text;
      if (v.delta.type === 'thinking_delta') b.thinking += v.delta.thinking;
      if (v.delta.type === 'signature_delta') b.signature = v.delta.signature;
      if (v.delta.type === 'input_json_delta') b.json += v.delta.partial_json;
      break;
    case 'content_block_stop':
      if (b?.type === 'tool_use') {
        b.input = argumentsOf(b.json);
        delete b.json;
      }
      break;
    case 'message_delta':
      a.finish = v.delta?.stop_reason ?? a.finish;
      messageUsage(a, v.usage);
  }
  showContent(a);
}

function gemini(a: Answer, v: Any) {
  const c = v.candidates?.[0];
  for (const p of c?.content?.parts ?? []) {
    const last: Any = a.native.at(-1);
    if (Object.keys(p).join() === 'text' && last && Object.keys(last).join() === 'text') last.text += p.text;
    else a.native.push({ ...p });
    if (p.functionCall) a.blocks.push({ kind: 'tool', id: p.functionCall.id ?? '', name: p.functionCall.name, text: JSON.stringify(p.functionCall.args ?? {}) });
    else add(a, p.thought ? 'reasoning' : 'text', p.text);
  }
  a.finish = c?.finishReason ?? v.promptFeedback?.blockReason ?? a.finish;
  const u = v.usageMetadata;
  count(a, { input: u?.promptTokenCount, output: u?.candidatesTokenCount, cached: u?.cachedContentTokenCount, reasoning: u?.thoughtsTokenCount });
}

// showConverse shows the content blocks of Converse. The input of a call is a text until the call is complete.
function showConverse(a: Answer) {
  a.blocks = [];
  for (const b of a.native as Any[]) {
    const thought = b?.reasoningContent;
    if (thought) add(a, 'reasoning', thought.reasoningText?.text ?? '(redacted)');
    else if (b?.toolUse) a.blocks.push({ kind: 'tool', id: b.toolUse.toolUseId, name: b.toolUse.name, text: typeof b.toolUse.input === 'string' ? b.toolUse.input : JSON.stringify(b.toolUse.input) });
    else add(a, 'text', b?.text);
  }
}

function converseUsage(a: Answer, u: Any) {
  count(a, { input: u?.inputTokens, output: u?.outputTokens, cached: u?.cacheReadInputTokens, 'written to cache': u?.cacheWriteInputTokens });
}

function converseDelta(b: Any, { text, toolUse, reasoningContent: r }: Any) {
  if (text !== undefined) b.text = (b.text ?? '') + text;
  if (toolUse && b.toolUse) b.toolUse.input += toolUse.input;
  if (r?.redactedContent) b.reasoningContent = { redactedContent: r.redactedContent };
  else if (r) {
    const t = (b.reasoningContent ??= { reasoningText: { text: '' } }).reasoningText;
    t.text += r.text ?? '';
    if (r.signature) t.signature = r.signature;
  }
}

function converseEvent(a: Answer, v: Any) {
  const [name, e] = Object.entries<Any>(v)[0] ?? ['', {}];
  const i = e.contentBlockIndex;
  const b: Any = a.native[i];
  if (name === 'contentBlockStart' && e.start?.toolUse) a.native[i] = { toolUse: { ...e.start.toolUse, input: '' } };
  else if (name === 'contentBlockDelta') converseDelta((a.native[i] ??= {}), e.delta);
  else if (name === 'contentBlockStop' && b?.toolUse) b.toolUse.input = argumentsOf(b.toolUse.input);
  else if (name === 'messageStop') a.finish = e.stopReason ?? a.finish;
  else if (name === 'metadata') converseUsage(a, e.usage);
  else if (name.endsWith('Exception')) a.error = errorOf(e);
  showConverse(a);
}

const events: Record<Dialect, (a: Answer, v: Any) => void> = {
  'openai-chat': chat,
  'openai-responses': (a, v) => {
    switch (v.type) {
      case 'response.output_text.delta':
      case 'response.refusal.delta': return add(a, 'text', v.delta);
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta': return add(a, 'reasoning', v.delta);
      case 'response.output_item.added':
        if (v.item?.type === 'function_call') Object.assign(callAt(a, v.output_index), { id: v.item.call_id, name: v.item.name });
        return;
      case 'response.function_call_arguments.delta':
        callAt(a, v.output_index).text += v.delta;
        return;
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed': return response(a, v.response);
      case 'error': a.error = errorOf(v);
    }
  },
  anthropic: messageEvent,
  gemini,
  converse: converseEvent,
};

const bodies: Record<Dialect, (a: Answer, v: Any) => void> = {
  'openai-chat': chat,
  'openai-responses': response,
  anthropic: (a, v) => {
    a.native = v.content ?? [];
    a.finish = v.stop_reason ?? '';
    messageUsage(a, v.usage);
    showContent(a);
  },
  gemini,
  converse: (a, v) => {
    a.native = v.output?.message?.content ?? [];
    a.finish = v.stopReason ?? '';
    converseUsage(a, v.usage);
    showConverse(a);
  },
};
