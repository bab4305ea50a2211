import { useMemo } from 'react';
import { useGet } from '../api/hooks';
import { Lines, type Line } from '../ui/chart';
import { forecast, type Budget, type Forecast } from '../ui/forecast';
import { dollars, money, nanos, span, toDollars } from '../ui/format';
import { Source, Time } from '../ui/parts';

// Refusals are the requests that a budget has refused lately.
export type Refusals = { count: number; last: string };

// Owner selects the usage of a key, a team or an organisation.
export type Owner = { key?: string; org?: string; team?: string };

const hour = 3600;
const day = 24 * hour;
const longest = 398 * day; // the API sums up 400 days

const axis = (n: number) => money(n);

// BurnDown shows how a budget was used and how long it lasts: in words and as a chart.
export function BurnDown({ budget: b, of, refused }: { budget: Budget; of: Owner; refused?: Refusals }) {
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
  const left = nanos(b.budget) - nanos(b.spent);
  const rate = money(f.rate * day) + ' a day';
  const returns = window ? 'spend is older than the window, or the budget is raised' : 'the budget is raised';
  // A request is refused if what it may cost is more than what is left, so requests are refused before all is spent.
  const words = left <= 0n ? `It is used up: requests are refused until ${returns}.`
    : refused ? `Requests are refused now: they may cost more than the ${dollars(left)} that is left. More is free when ${returns}.`
      : f.usedUp !== undefined ? `Used up in about ${about(f.usedUp - now)} at this rate: ${rate}.`
        : `Lasts at this rate: ${rate}${f.most > toDollars(nanos(b.spent)) * 1.01 ? ', at most ' + money(f.most) + ' in the window' : ''}.`;
  return (
    <div className="burn-down">
      <p className="forecast">{words}{left > 0n && !refused && f.usedUp !== undefined && <> That is <Time at={new Date(f.usedUp * 1000).toISOString()} />.</>}</p>
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
