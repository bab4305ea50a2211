import { nanos, toDollars } from './format';

const day = 86400;

// Budget is a budget with what is spent of it. The window moves: spend leaves it when it is as old.
export type Budget = { budget: string; window_seconds: number; spent: string };

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

// forecast computes what the window held until now, and what it will hold if the last day repeats itself, up to one
// window from now. A window of a day then stays as it is.
export function forecast(b: Budget, spend: Spend[], step: number, now: number): Forecast {
  const window = b.window_seconds;
  const limit = toDollars(nanos(b.budget)), spent = toDollars(nanos(b.spent));
  const length = window || 30 * day;
  // before returns what was spent until a time, as far as it is known; hours and days count evenly.
  const before = (t: number) => spend.reduce((sum, s) => sum + s.cost * Math.min(1, Math.max(0, (t - s.start) / Math.min(step, Math.max(1, now - s.start)))), 0);
  const all = before(now);
  const recent = Math.min(day, length);
  const start = before(now - recent);
  const lately = Math.max(0, all - start);
  const rate = lately / recent;
  // repeated is what will be spent within a time from now.
  const repeated = (t: number) => Math.floor(t / recent) * lately + Math.max(0, before(now - recent + (t % recent)) - start);
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
    const value = Math.max(0, spent + repeated(t - now) - left);
    if (usedUp === undefined && value >= limit && spent < limit) usedUp = t - (length / 40) * (value > last ? (value - limit) / (value - last) : 0);
    most = Math.max(most, value);
    last = value;
    times.push(t);
    past.push(null);
    projected.push(Math.min(value, limit));
  }
  return { times, spent: past, projected, rate, usedUp, most };
}
