import { useState, type FormEvent, type ReactNode } from 'react';
import type { Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { useCan } from '../session';
import { count, dollars, nanos, span, toDollars } from '../ui/format';
import { Button, Dialog, Facts, Failure, Meter, Select, Source, Text, windowChoices, windowText } from '../ui/parts';

type Use = Schemas['UseView'];
type Limits = Schemas['Limits'];
type Change = Schemas['LimitsChange'];
type Budget = Schemas['BudgetBody'];

// Used shows the use of each limit. Without a limit nothing is counted.
export function Used({ use, of }: { use: Use; of: Owner }) {
  const can = useCan();
  const l = use.limits;
  const line = (name: string, used: number, limit: number) => [name, limit === 0 ? 'no limit' : <><span>{count(used)} of {count(limit)}</span><Meter used={used} limit={limit} label={name} /></>] as [string, ReactNode];
  const budget = nanos(l.budget);
  return (
    <Facts rows={[
      ['Budget', budget === 0n ? 'none' : (
        <>
          <span>{dollars(use.spent)} of {dollars(budget)} in {windowText(l.window_seconds)}</span>
          <Meter used={toDollars(nanos(use.spent))} limit={toDollars(budget)} label="Budget" />
          {can('get-usage') && <Forecast use={use} of={of} />}
        </>
      )],
      line('Requests per minute', use.requests, l.requests_per_minute),
      line('Tokens per minute', use.tokens, l.tokens_per_minute),
      line('Open requests', use.concurrency, l.concurrency),
    ]} />
  );
}

// Owner selects the usage of a key, a team or an organisation.
export type Owner = { key?: string; org?: string; team?: string };

const hour = 3_600_000;

// Forecast says when the budget is used up if the spend of the last day goes on. The window moves, so
// spend that fits into it again and again never uses the budget up.
function Forecast({ use, of }: { use: Use; of: Owner }) {
  const from = Math.floor(Date.now() / hour - 24) * hour;
  const usage = useGet('/api/v1/usage', { query: { ...of, from: new Date(from).toISOString().slice(0, 19) + 'Z' } });
  if (!usage.data) return null;
  const spend = nanos(usage.data.sums[0]?.cost);
  return <div className="hint forecast">{forecast(use, toDollars(spend) / ((Date.now() - from) / 1000), spend)}<Source calls={[usage.call]} /></div>;
}

function forecast(use: Use, rate: number, spend: bigint): string {
  const budget = toDollars(nanos(use.limits.budget)), left = budget - toDollars(nanos(use.spent)), window = use.limits.window_seconds;
  if (left <= 0) return 'It is used up: requests are refused.';
  const last = dollars(spend) + ' in the last day';
  if (rate === 0 || (window > 0 && rate * window <= budget)) return 'Lasts at this rate: ' + last + '.';
  const days = left / rate / 86400;
  return 'Used up in about ' + (days >= 1.5 ? Math.round(days) + ' days' : span(Math.max(1, Math.round(days * 24)) * 3600)) + ' at this rate: ' + last + '.';
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
