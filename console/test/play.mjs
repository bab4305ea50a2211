// What the scripted upstream does for messages of the playground's tests. It speaks Chat Completions.
import { evil } from './rig.mjs';

// played counts streams that the gateway has closed before their end.
export const played = { closed: 0, last: undefined };

// play answers a request whose last message begins with "play:", or that has a tool's result. It reports
// whether it did.
export function play(body, res) {
  const messages = body.messages ?? [];
  const last = messages.at(-1) ?? {};
  const parts = Array.isArray(last.content) ? last.content : [{ type: 'text', text: last.content ?? '' }];
  const text = parts.map((p) => p.text ?? '').join('');
  if (last.role !== 'tool' && !text.startsWith('play:')) return false;
  played.last = body;
  if (text.includes('refuse')) {
    res.writeHead(400, { 'Content-Type': 'application/json' }).end('{"error":{"message":"the model is out of order","type":"invalid_request_error"}}');
    return true;
  }
  const image = parts.find((p) => p.type === 'image_url');
  const call = (name) => ({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name, arguments: '{"city":"Paris"}' } }] });
  let deltas = [{ content: 'You said:\n' }, { content: text + ' ' }, { content: '– ünï ✓' }];
  if (last.role === 'tool') deltas = [{ content: 'The tool says ' }, { content: text }];
  else if (image) deltas = [{ content: 'I see ' + image.image_url.url.slice(0, 22) }];
  else if (text.includes('think')) deltas = [{ reasoning_content: 'Let me ' }, { reasoning_content: 'think.' }, { content: 'Done.' }];
  else if (text.includes('evil')) deltas = [{ content: evil + '<script>alert(1)</script>' }, call(evil)];
  else if (body.tools?.length) deltas = [{ content: 'I look.' }, call(body.tools[0].function.name)];
  const finish = deltas.some((d) => d.tool_calls) ? 'tool_calls' : 'stop';
  const usage = { prompt_tokens: 1200, completion_tokens: 34, total_tokens: 1234 };
  const common = { id: 'c1', created: 1, model: body.model };
  if (!body.stream) {
    const message = { role: 'assistant', content: '' };
    for (const d of deltas) {
      if (d.content) message.content += d.content;
      if (d.reasoning_content) message.reasoning_content = (message.reasoning_content ?? '') + d.reasoning_content;
      if (d.tool_calls) message.tool_calls = d.tool_calls.map(({ index, ...rest }) => rest);
    }
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ ...common, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage }));
    return true;
  }
  res.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const event = (choices, more = {}) => res.write('data: ' + JSON.stringify({ ...common, object: 'chat.completion.chunk', choices, ...more }) + '\n\n');
  if (text.includes('slow')) { // until the gateway closes it
    let n = 0;
    const timer = setInterval(() => event([{ index: 0, delta: { content: 'part ' + n++ + ' ' } }]), 50);
    res.on('close', () => { clearInterval(timer); played.closed++; });
    return true;
  }
  for (const delta of deltas) event([{ index: 0, delta }]);
  event([{ index: 0, delta: {}, finish_reason: finish }]);
  event([], { usage });
  res.end('data: [DONE]\n\n');
  return true;
}
