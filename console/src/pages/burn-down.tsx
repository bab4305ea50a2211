import { useMemo } from 'react';
import { useGet } from '../api/hooks';
import { Lines, type Line } from '../ui/chart';
import { dollars, money, nanos, span, toDollars } from '../ui/format';
import { Source, Time } from '../ui/parts';

// Owner selects the usage of a key, a team or an organisation.
export type Owner = { key?: string; org?: string; team?: string };

// Budget is a budget with what is spent of it. The window moves: spend leaves it when it is as old.
export type Budget = { budget: string; window_seconds: number; spent: string };

const hour = 3600;
const day = 24 * hour;
const longest = 398 * day; // the API sums up 400 days

// Spend is what was spent in an hour or a day, by the time of its start.
type Spend = { start: number; cost: number };

export type Forecast = {
  times: number[];
  spent: (number | null)[]; // in the window that ends at each time
  projected: (number | null)[];
  rate: number; // dollars per second
  usedUp?: number; // when
  most: number; // of the projection
};

// forecast computes what the window held until now, and what it will hold if the spend of the last day
// goes on, up to one window from now.
export function forecast(b: Budget, spend: Spend[], step: number, now: number): Forecast {
  const window = b.window_seconds;
  const limit = toDollars(nanos(b.budget)), spent = toDollars(nanos(b.spent));
  const length = window || 30 * day;
  // before returns what was spent until a time, as far as it is known; hours and days count evenly.
  const before = (t: number) => spend.reduce((sum, s) => sum + s.cost * Math.min(1, Math.max(0, (t - s.start) / Math.min(step, Math.max(1, now - s.start)))), 0);
  const all = before(now);
  const recent = Math.min(day, length);
  const rate = Math.max(0, all - before(now - recent)) / recent;
  const held = (t: number) => (window ? before(t) - before(t - window) : spent - (all - before(t)));
  const off = spent - held(now); // what the sums of hours and days do not tell exactly
  const times: number[] = [], past: (number | null)[] = [], projected: (number | null)[] = [];
  for (let i = 40; i >= 1; i--) {
    const t = now - (length * i) / 40;
    times.push(t);
    past.push(Math.max(0, held(t) + off * (1 - i / 40)));
    projected.push(null);
  }
  times.push(now);
  past.push(spent);
  projected.push(spent);
  let most = spent, usedUp: number | undefined, last = spent;
  for (let i = 1; i <= 40; i++) {
    const t = now + (length * i) / 40;
    const left = window ? before(t - window) - before(now - window) : 0;
    const value = Math.max(0, spent + rate * (t - now) - left);
    if (usedUp === undefined && value >= limit && spent < limit) usedUp = t - (length / 40) * (value > last ? (value - limit) / (value - last) : 0);
    most = Math.max(most, value);
    last = value;
    times.push(t);
    past.push(null);
    projected.push(Math.min(value, limit));
  }
  return { times, spent: past, projected, rate, usedUp, most };
}

const axis = (n: number) => money(n);

// BurnDown shows how a budget was used and how long it lasts: in words and as a chart.
export function BurnDown({ budget: b, of }: { budget: Budget; of: Owner }) {
  const window = b.window_seconds;
  const back = Math.min(longest, window ? 2 * window : 30 * day);
  const step = back <= 16 * day ? hour : day;
  const now = Math.ceil(Date.now() / 60_000) * 60;
  const from = Math.floor((now - back) / step) * step;
  const usage = useGet('/api/v1/usage', { query: { ...of, from: new Date(from * 1000).toISOString().slice(0, 19) + 'Z', group: [step === hour ? 'hour' : 'day'] } }, { every: 60_000 });
  const sums = usage.data?.sums;
  const f = useMemo(() => sums && forecast(b, sums.map((s) => ({ start: Date.parse(s.start ?? '') / 1000, cost: toDollars(nanos(s.cost)) })), step, now), [sums, b.budget, b.spent, b.window_seconds, step, now]); // eslint-disable-line
  const lines = useMemo(() => f && linesOf(f, toDollars(nanos(b.budget))), [f, b.budget]);
  if (!f || !lines) return null;
  const left = toDollars(nanos(b.budget)) - toDollars(nanos(b.spent));
  const rate = dollars(BigInt(Math.round(f.rate * day * 1e9))) + ' a day';
  const words = left <= 0 ? 'It is used up: requests are refused until spend is older than the window, or the budget is raised.'
    : f.usedUp !== undefined ? `Used up in about ${about(f.usedUp - now)} at this rate: ${rate}.`
      : `Lasts at this rate: ${rate}${window ? ', at most ' + money(f.most) + ' of ' + dollars(b.budget) + ' in the window' : ''}.`;
  return (
    <div className="burn-down">
      <p className="forecast">{words}{left > 0 && f.usedUp !== undefined && <> That is <Time at={new Date(f.usedUp * 1000).toISOString()} />.</>}</p>
      {f.spent.some((v) => v) && <Lines label={`Burn-down of ${dollars(b.budget)}: ${dollars(b.spent)} spent. ${words}`} times={f.times} lines={lines} format={axis} height={130} />}
      <Source calls={[usage.call]} />
    </div>
  );
}

const linesOf = (f: Forecast, limit: number): Line[] => [
  { name: 'spent in the window', values: f.spent, colour: 'c0' },
  { name: 'forecast', values: f.projected, colour: 'c1', dashed: true },
  { name: 'budget', values: f.times.map(() => limit), colour: 'c7' },
];

function about(s: number): string {
  const days = s / day;
  return days >= 1.5 ? Math.round(days) + ' days' : span(Math.max(1, Math.round(days * 24)) * hour);
}
