const number = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n: number) => number.format(n);
export const compact = (n: number) => (Math.abs(n) < 10_000 ? number.format(n) : short.format(n));

// Money is exact: the API's decimals have nine places, and sums are made of whole nano-dollars.
export function nanos(decimal: string | undefined): bigint {
  const [whole = '0', fraction = ''] = (decimal || '0').split('.');
  return BigInt(whole) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0'));
}

export const toDollars = (n: bigint) => Number(n) / 1e9;

// dollars writes an amount with two places, or with more if it is small.
export function dollars(amount: bigint | string | undefined): string {
  const n = typeof amount === 'bigint' ? amount : nanos(amount);
  const value = toDollars(n);
  if (n === 0n) return '$0';
  if (value >= 1) return '$' + new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value);
  return '$' + new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, maximumFractionDigits: 9 }).format(value);
}

// money writes an amount that a chart has as a number.
export const money = (n: number) => dollars(BigInt(Math.round(n * 1e9)));

// tenant names an organisation, and a team of it, by their names or else by their ids.
export const tenant = (t: { org?: string; org_name?: string; team?: string; team_name?: string }) =>
  [t.org_name || t.org, t.team_name || t.team].filter(Boolean).join(' / ');

// tenantIDs has their ids.
export const tenantIDs = (t: { org?: string; team?: string }) => [t.org, t.team].filter(Boolean).join(' / ');

// seconds writes a duration.
export function seconds(s: number): string {
  if (s === 0) return '0 s';
  if (s < 0.001) return (s * 1e6).toFixed(0) + ' µs';
  if (s < 1) return (s * 1000).toFixed(s < 0.01 ? 1 : 0) + ' ms';
  if (s < 60) return s.toFixed(s < 10 ? 2 : 1) + ' s';
  return Math.floor(s / 60) + ' min ' + Math.round(s % 60) + ' s';
}

// ago writes an age in one unit, such as 3 min.
export function ago(s: number): string {
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['min', 60]] as const) {
    if (s >= size) return Math.floor(s / size) + ' ' + unit;
  }
  return Math.max(0, Math.round(s)) + ' s';
}

// span writes a window of whole units, such as 30 days.
export function span(s: number): string {
  for (const [unit, size] of [['day', 86400], ['hour', 3600], ['minute', 60]] as const) {
    if (s >= size && s % size === 0) return s / size === 1 ? '1 ' + unit : s / size + ' ' + unit + 's';
  }
  return s + ' seconds';
}

type Unit = { unit: string; label: string; within?: string; amount: number };
type Tokens = { input: number; cache_read: number; cache_write: number; output: number; reasoning: number; units?: Unit[] };

export const tokenSum = (t: Tokens) => t.input + t.cache_read + t.cache_write + t.output + t.reasoning;

// unitsIn returns the units beside tokens that occur in a list.
export function unitsIn(list: Tokens[]): Unit[] {
  const all = new Map<string, Unit>();
  for (const u of list.flatMap((t) => t.units ?? [])) all.set(u.unit, u);
  return [...all.values()];
}

export const amountOf = (t: Tokens, unit: string) => t.units?.find((u) => u.unit === unit)?.amount ?? 0;

// between returns the seconds between two times. Date has milliseconds only.
export function between(from: string, to: string): number {
  const fraction = (t: string) => Number('0' + (/\.\d+/.exec(t)?.[0] ?? ''));
  const whole = (t: string) => Date.parse(t.replace(/\.\d+/, '')) / 1000;
  return whole(to) - whole(from) + fraction(to) - fraction(from);
}
