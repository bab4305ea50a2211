import { useQuery, useQueryClient } from '@tanstack/react-query';
import { between } from '../ui/format';
import { call, sendCall, type Call, type Schemas } from './client';
import type { paths } from './schema';

type Filters = NonNullable<paths['/api/v1/requests']['get']['parameters']['query']>;
type List = Schemas['RequestList'];

// What a poll reads is bounded: one page, of the last minutes. Nothing is added up but numbers.
const rows = 50;
const minutes = 15;
const pause = 1_000; // between polls, or four times as long as the last one took
const samples = 5; // polls that the rate is a mean of

// Tail is the newest page and what is known of the requests that are not on it.
export type Tail = { list: List; call: Call; since: number; at: number; took: number; rates: number[]; skipped: number };

// next returns the tail after a poll. The rate is that of the requests on the page: 50 requests that
// began within 0.1 s are 500 per second.
function next(last: Tail | undefined, list: List, polled: { call: Call; at: number; took: number }): Tail {
  const found = list.requests;
  const newest = found[0]?.began, oldest = found.at(-1)?.began, before = last?.list.requests[0]?.began;
  const recent = found.filter((r) => polled.at - Date.parse(r.began) < 10_000).length;
  let rate = recent / 10, skipped = 0;
  if (recent === found.length && list.next && newest && oldest) {
    rate = (found.length - 1) / Math.max(0.001, between(oldest, newest));
    if (before && between(before, oldest) > 0) skipped = rate * between(before, oldest);
  }
  return { list, ...polled, since: last?.since ?? polled.at, rates: [...(last?.rates ?? []), rate].slice(-samples), skipped: (last?.skipped ?? 0) + skipped };
}

// useTail reads the newest requests again and again. A slow gateway is asked less often, and a page that
// is not visible asks for nothing.
export function useTail(filters: Filters, running: boolean) {
  const client = useQueryClient();
  const key = ['tail', JSON.stringify(filters)];
  return useQuery({
    queryKey: key,
    queryFn: async ({ signal }) => {
      const began = performance.now();
      const from = new Date(Date.now() - minutes * 60_000).toISOString().slice(0, 19) + 'Z';
      const c = call<'/api/v1/requests', 'get'>('get', '/api/v1/requests', { query: { ...filters, from, limit: rows } });
      const list = await sendCall(c, signal) as List;
      return next(client.getQueryData<Tail>(key), list, { call: c, at: Date.now(), took: performance.now() - began });
    },
    refetchInterval: (query) => running && Math.max(pause, 4 * (query.state.data?.took ?? 0)),
    structuralSharing: false,
    gcTime: 0,
  });
}

// rateOf returns the requests per second.
export const rateOf = (t: Tail) => t.rates.reduce((sum, r) => sum + r, 0) / t.rates.length;
