import { useMemo, useState } from 'react';
import { setParams, useLocation, useParam } from '../router';
import { Select, Text } from './parts';

const lengths: Record<string, { label: string; hours: number }> = {
  '1h': { label: 'last hour', hours: 1 },
  '24h': { label: 'last 24 hours', hours: 24 },
  '7d': { label: 'last 7 days', hours: 24 * 7 },
  '30d': { label: 'last 30 days', hours: 24 * 30 },
  '90d': { label: 'last 90 days', hours: 24 * 90 },
};

const hour = 3_600_000;

export type Range = { from: string; to: string; group: 'hour' | 'day'; until: number };

// useRange returns the range of time in the address. A range that ends now moves on by the minute, so
// that the same numbers are not read again for every render.
export function useRange(initial = '24h'): Range {
  const { query } = useLocation();
  const length = query.get('range') ?? initial;
  const custom = length === 'custom';
  const fromText = query.get('from') ?? '', toText = query.get('to') ?? '';
  const minute = Math.ceil(Date.now() / 60_000) * 60_000;
  return useMemo(() => {
    const to = custom && toText ? new Date(toText).getTime() : minute;
    const start = custom && fromText ? new Date(fromText).getTime() : NaN;
    const from = Number.isNaN(start) ? to - (lengths[length] ?? lengths[initial]!).hours * hour : start;
    return { from: new Date(from).toISOString().slice(0, 19) + 'Z', to: new Date(to).toISOString().slice(0, 19) + 'Z', group: to - from <= 4 * 24 * hour ? 'hour' : 'day', until: to };
  }, [custom, length, initial, fromText, toText, minute]);
}

// local is a time as a field of a form has it.
export const local = (iso: string) => {
  const t = new Date(iso);
  return new Date(t.getTime() - t.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

// RangePicker chooses the range of time.
export function RangePicker({ initial = '24h' }: { initial?: string }) {
  const { query } = useLocation();
  const range = useRange(initial);
  const length = query.get('range') ?? initial;
  const choose = (v: string) => setParams(v === 'custom' ? { range: v, from: local(range.from), to: local(range.to) } : { range: v === initial ? '' : v, from: '', to: '' });
  return (
    <>
      <Select label="Time" value={length} set={choose} choices={[...Object.entries(lengths).map(([value, l]) => ({ value, label: l.label })), { value: 'custom', label: 'custom…' }]} />
      {length === 'custom' && (
        <>
          <Text label="From" type="datetime-local" value={query.get('from') ?? ''} set={(v) => setParams({ from: v })} />
          <Text label="To" type="datetime-local" value={query.get('to') ?? ''} set={(v) => setParams({ to: v })} />
        </>
      )}
    </>
  );
}

// Filter is a text in the address that is applied when it is complete: on Enter, or when the focus
// leaves it.
export function Filter({ name, label, list }: { name: string; label: string; list?: string[] }) {
  const [value] = useParam(name);
  const [text, setText] = useState(value);
  const [seen, setSeen] = useState(value);
  if (seen !== value) { // the address has changed
    setSeen(value);
    setText(value);
  }
  const apply = () => { if (text !== value) setParams(name === 'org' && !text ? { org: '', team: '' } : { [name]: text.trim() }); };
  return (
    <form className="filter" onSubmit={(e) => { e.preventDefault(); apply(); }} onBlur={apply}>
      <Text label={label} value={text} set={setText} placeholder="any" list={list} />
    </form>
  );
}
