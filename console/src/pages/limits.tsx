import { useState, type FormEvent, type ReactNode } from 'react';
import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { Link } from '../router';
import { useCan } from '../session';
import { count, dollars, nanos, toDollars } from '../ui/format';
import { Button, Dialog, Facts, Failure, Meter, Select, Text, Time, windowChoices, windowText } from '../ui/parts';
import { BurnDown, type Owner, type Refusals } from './burn-down';

type Use = Schemas['UseView'];
type Limits = Schemas['Limits'];
type Change = Schemas['LimitsChange'];
type Budget = Schemas['BudgetBody'];

// Used shows the use of each limit. Without a limit nothing is counted.
export function Used({ use, of }: { use: Use; of: Owner }) {
  const can = useCan();
  const l = use.limits;
  const line = (name: string, used: number, limit: number) => [name, limit === 0 ? 'no limit' : <><span>{count(used)} of {count(limit)}</span><Meter used={used} limit={limit} label={name} /></>] as [string, ReactNode];
  const budgets = budgetsOf(use);
  const refused = useRefused(of, budgets.length > 0 && can('list-refusals'));
  const least = budgets.toSorted((a, b) => Number(leftOf(a) - leftOf(b)))[0];
  return (
    <Facts rows={[
      ...budgets.map((b, i): [string, ReactNode] => ['Budget' + (i > 0 ? ' ' + (i + 1) : ''), nanos(b.budget) === 0n ? (refused ? <>none<RefusedNow refused={refused} of={of} /></> : 'none') : (
        <>
          <span>{dollars(b.spent)} of {dollars(b.budget)} in {windowText(b.window_seconds)}</span>
          <Meter used={toDollars(nanos(b.spent))} limit={toDollars(nanos(b.budget))} label="Budget" />
          {b === least && refused && <RefusedNow refused={refused} of={of} />}
          {can('get-usage') && <BurnDown budget={b} of={of} refused={b === least ? refused : undefined} />}
        </>
      )]),
      line('Requests per minute', use.requests, l.requests_per_minute),
      line('Tokens per minute', use.tokens, l.tokens_per_minute),
      line('Open requests', use.concurrency, l.concurrency),
    ]} />
  );
}

type Spent = Budget & { spent: string };

// budgetsOf returns all budgets with what is spent of them.
export const budgetsOf = (use: Use): Spent[] => (use.budgets?.length ? use.budgets : [{ budget: use.limits.budget, window_seconds: use.limits.window_seconds, spent: use.spent }]);

const leftOf = (b: Spent) => nanos(b.budget) - nanos(b.spent);

const lately = 15; // minutes

// useRefused counts the requests of an account that a budget has refused lately: its own, or that of its team or
// organisation.
function useRefused(of: Owner, enabled: boolean): Refusals | undefined {
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const from = new Date(minute - lately * 60_000).toISOString().slice(0, 19) + 'Z';
  const list = useGet('/api/v1/refusals', { query: { ...of, from } }, { enabled, every: 15_000 }).data?.refusals.filter((r) => r.reason === 'budget') ?? [];
  if (list.length === 0) return undefined;
  return { count: list.reduce((n, r) => n + r.count, 0), last: list.map((r) => r.last).toSorted().at(-1)! };
}

function RefusedNow({ refused, of }: { refused: Refusals; of: Owner }) {
  const told = '/console/exchanges?' + new URLSearchParams({ range: '1h', outcome: 'refused', ...of });
  return <div className="hint">A budget refused {refused.count === 1 ? 'one request' : count(refused.count) + ' requests'} in the last {lately} minutes, the last at <Time at={refused.last} />. <Link to={told}>What the client was told</Link></div>;
}

type FormProps = { title: string; pending: boolean; error: unknown; close: () => void };

// BudgetForm sets a budget.
export function BudgetForm({ limits, save, ...form }: FormProps & { limits: Limits; save: (b: Budget) => void }) {
  const [budget, setBudget] = useState(limits.budget);
  const [window, setWindow] = useState(String(limits.window_seconds));
  return (
    <EditForm {...form} save={() => save({ budget: budget || '0', window_seconds: Number(window) })}>
      <Text label="Budget in dollars" value={budget} set={setBudget} pattern="[0-9]+([.][0-9]{1,9})?" hint="0: no limit." />
      <Select label="In every" value={window} set={setWindow} choices={windowChoices(window)} />
    </EditForm>
  );
}

export type LimitTexts = { requests: string; tokens: string; concurrency: string };

export const limitTexts = (l?: Limits): LimitTexts => ({ requests: String(l?.requests_per_minute ?? 0), tokens: String(l?.tokens_per_minute ?? 0), concurrency: String(l?.concurrency ?? 0) });

export const limitChange = (t: LimitTexts): Change => ({ requests_per_minute: Number(t.requests), tokens_per_minute: Number(t.tokens), concurrency: Number(t.concurrency) });

// LimitFields are the limits except for the budget.
export function LimitFields({ value, set }: { value: LimitTexts; set: (v: LimitTexts) => void }) {
  return (
    <fieldset>
      <legend>Limits (0: none)</legend>
      <Text label="Requests per minute" type="number" value={value.requests} set={(v) => set({ ...value, requests: v })} />
      <Text label="Tokens per minute" type="number" value={value.tokens} set={(v) => set({ ...value, tokens: v })} />
      <Text label="Open requests" type="number" value={value.concurrency} set={(v) => set({ ...value, concurrency: v })} />
    </fieldset>
  );
}

// EditForm is a dialog with a form.
export function EditForm({ title, pending, error, close, save, children, action = 'Save' }: FormProps & { save: () => void; children: ReactNode; action?: string }) {
  const submit = (e: FormEvent) => {
    e.preventDefault();
    save();
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={submit}>
        {children}
        {error ? <Failure error={error} /> : null}
        <div className="form-actions">
          <Button onClick={close}>Cancel</Button>
          <button className="button primary" disabled={pending}>{action}</button>
        </div>
      </form>
    </Dialog>
  );
}
