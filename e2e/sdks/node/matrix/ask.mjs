// What every SDK's user asks, and what is reported in the same words for all.

import { z } from 'zod';

export const system = 'Be brief.';
export const hello = 'Say hello.';
export const one = 'How warm is it in Paris?';
export const two = 'How warm is it in Paris and in Köln?';
export const picture = 'What is this?';
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJgggAA++//+/A=';
export const most = 64;
export const mostThinking = 4096;

export const description = 'The weather of a city.';
export const city = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
export const person = z.object({ name: z.string(), age: z.number().int(), tags: z.array(z.string()) });

export const weather = (place) => ({ degrees: place === 'Paris' ? 21 : 22 });
export const weatherJSON = (place) => JSON.stringify(weather(place));

export const callReport = (name, args) => ({ name, city: args.city });
export const usageReport = (input, cached, output, reasoning) => ({ input, cached, output, reasoning: reasoning ?? 0 });

export const problemReport = (e, status, message, retryAfter) => ({
  error: { class: e.constructor.name, status, message, retry_after: retryAfter ?? '' },
});

// The text of a stream up to where it raises, and the class of what it raised.
export async function cutReport(texts) {
  let text = '';
  try {
    for await (const piece of texts) text += piece;
  } catch (e) {
    return { text, error: e.constructor.name };
  }
  return { text, error: '' };
}

// The first text of a stream that is left then.
export async function firstReport(texts) {
  for await (const text of texts) if (text) return { text };
  return { text: '' };
}

export async function collect(pages) {
  const all = [];
  for await (const item of pages) all.push(item);
  return all;
}

// Both forms of an answer, one after the other.
export const both = (whole, stream) => async (client, model) => ({
  whole: await whole(client, model),
  stream: await stream(client, model),
});
