import { useEffect, useId, useLayoutEffect, useRef, useState, type ButtonHTMLAttributes, type ReactNode } from 'react';
import { ApiError, curl, type Call } from '../api/client';
import { span } from './format';

export function Button({ kind = 'plain', ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: 'plain' | 'primary' | 'danger' }) {
  return <button type="button" className={'button ' + kind} {...rest} />;
}

// Copy is a button that copies a text.
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState('');
  const copy = () => navigator.clipboard.writeText(text).then(() => setDone('Copied'), () => setDone('Select the text and copy it'));
  return <Button onClick={() => void copy()}><span aria-live="polite">{done || label}</span></Button>;
}

// Source shows the API call that gives the numbers above it.
export function Source({ calls }: { calls: Call[] }) {
  return (
    <details className="source">
      <summary>API call{calls.length > 1 && 's'}</summary>
      {calls.map((c) => (
        <div key={c.method + c.path} className="source-call">
          <code>{c.method} {c.path}</code>
          <Copy text={curl(c)} label="Copy as curl" />
        </div>
      ))}
    </details>
  );
}

export function Card({ title, actions, calls, children, wide }: { title: string; actions?: ReactNode; calls?: Call[]; children: ReactNode; wide?: boolean }) {
  const id = useId();
  return (
    <section className={wide ? 'card wide' : 'card'} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
      {calls && <Source calls={calls} />}
    </section>
  );
}

// PageHead is the title of a page with what can be done there.
export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <div className="page-head">
      <h1>{title}</h1>
      <div className="actions">{children}</div>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return <p className="loading" role="status">Loading {what}…</p>;
}

// Failure says what went wrong and what to do next.
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div className="notice bad" role="alert">
      <p>{sentence(error instanceof Error ? error.message : 'something went wrong')}</p>
      <Mistakes list={error instanceof ApiError ? error.problem.errors ?? [] : []} />
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

// Mistakes lists the mistakes of an input or a file, with their lines.
export function Mistakes({ list }: { list: { line?: number; location?: string; message: string }[] }) {
  if (list.length === 0) return null;
  return (
    <ul>
      {list.map((m, i) => (
        <li key={i}>{m.line ? <strong>line {m.line}: </strong> : null}{m.location ? <code>{m.location}</code> : null}{m.location && ': '}{m.message}</li>
      ))}
    </ul>
  );
}

export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');

type Loaded<T> = { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

// Show shows what a query has: its data, that it is being loaded, or why it failed.
export function Show<T>({ query, what, children }: { query: Loaded<T>; what: string; children: (data: T) => ReactNode }) {
  if (query.error && query.data === undefined) return <Failure error={query.error} retry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading what={what} />;
  return (
    <>
      {query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : null}
      {children(query.data)}
    </>
  );
}

// useSeen reports whether an element is or was on the screen, or less than a screen away from it.
export function useSeen<E extends Element>() {
  const ref = useRef<E>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((e) => e.isIntersecting)) setSeen(true);
    }, { rootMargin: '100%' });
    if (ref.current && !seen) observer.observe(ref.current);
    return () => observer.disconnect();
  }, [seen]);
  return [ref, seen] as const;
}

// Time shows a time in the viewer's zone, and in UTC on hover.
export function Time({ at, exact = false }: { at: string | undefined; exact?: boolean }) {
  if (!at) return null;
  const t = new Date(at);
  const today = t.toDateString() === new Date().toDateString();
  const text = t.toLocaleString(undefined, {
    ...(today && !exact ? {} : { day: 'numeric', month: 'short', ...(t.getFullYear() !== new Date().getFullYear() || exact ? { year: 'numeric' } : {}) }),
    hour: '2-digit', minute: '2-digit', ...(today || exact ? { second: '2-digit' } : {}),
  });
  return <time dateTime={at} title={t.toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')}>{text}</time>;
}

const tones: Record<string, string> = {
  running: 'good', active: 'good', answered: 'good', cached: 'good', allowed: 'good', exact: 'good',
  silent: 'bad', failed: 'bad', lost: 'bad', denied: 'bad', revoked: 'bad', blocked: 'bad', dropped: 'bad',
  expired: 'warn', refused: 'warn', left: 'warn', approximated: 'warn',
};

// Badge shows a state. The word carries the meaning, the colour only repeats it.
export function Badge({ children, tone }: { children: string; tone?: string }) {
  return <span className={'badge ' + (tone ?? tones[children] ?? '')}>{children}</span>;
}

// Meter shows the used part of a limit.
export function Meter({ used, limit, label }: { used: number; limit: number; label: string }) {
  const share = limit > 0 ? used / limit : 0;
  return (
    <div className={'meter' + (share >= 1 ? ' full' : share >= 0.8 ? ' high' : '')} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.min(100, Math.round(share * 100))}>
      <div style={{ width: Math.min(100, share * 100) + '%' }} />
    </div>
  );
}

// Dialog is the browser's own modal dialog: it keeps the focus inside and closes on Escape.
export function Dialog({ title, close, children, className = '' }: { title: string; close: () => void; children: ReactNode; className?: string }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (!dialog || dialog.open) return;
    dialog.showModal();
    dialog.querySelector<HTMLElement>('input, select, .form-actions button')?.focus();
  }, []);
  return (
    <dialog ref={ref} className={className} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); close(); }} onMouseDown={(e) => { if (e.target === ref.current) close(); }}>
      <div className="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" className="close" aria-label="Close" onClick={close}>×</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

// Confirm asks before a change that cannot be undone.
export function Confirm({ title, action, pending, error, run, close, children }: { title: string; action: string; pending: boolean; error: unknown; run: () => void; close: () => void; children: ReactNode }) {
  return (
    <Dialog title={title} close={close}>
      {children}
      {error ? <Failure error={error} /> : null}
      <div className="form-actions">
        <Button onClick={close}>Cancel</Button>
        <Button kind="danger" disabled={pending} onClick={run}>{action}</Button>
      </div>
    </Dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string, hintId: string | undefined) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id, hint ? id + '-hint' : undefined)}
      {hint && <p className="hint" id={id + '-hint'}>{hint}</p>}
    </div>
  );
}

type TextProps = { label: string; hint?: string; value: string; set: (v: string) => void; type?: string; placeholder?: string; required?: boolean; list?: string[]; autoFocus?: boolean; pattern?: string; maxLength?: number; disabled?: boolean };

export function Text({ label, hint, value, set, type = 'text', list, ...rest }: TextProps) {
  const listId = useId();
  return (
    <Field label={label} hint={hint}>
      {(id, hintId) => (
        <>
          <input id={id} type={type} value={value} aria-describedby={hintId} onChange={(e) => set(e.target.value)} list={list && listId} autoComplete="off" spellCheck={false} {...rest} />
          {list && <datalist id={listId}>{list.map((v) => <option key={v} value={v} />)}</datalist>}
        </>
      )}
    </Field>
  );
}

export type Choice = string | { value: string; label: string };

export function Select({ label, hint, value, set, choices }: { label: string; hint?: string; value: string; set: (v: string) => void; choices: Choice[] }) {
  return (
    <Field label={label} hint={hint}>
      {(id, hintId) => (
        <select id={id} value={value} aria-describedby={hintId} onChange={(e) => set(e.target.value)}>
          {choices.map((c) => {
            const { value: v, label: text } = typeof c === 'string' ? { value: c, label: c } : c;
            return <option key={v} value={v}>{text}</option>;
          })}
        </select>
      )}
    </Field>
  );
}

export type Column<T> = { head: string; cell: (row: T) => ReactNode; number?: boolean; main?: boolean };

// Table is a table on wide screens and a list of cards on narrow ones. The roles are explicit,
// because the styles of the cards would remove them.
export function Table<T>({ label, columns, rows, id }: { label: string; columns: Column<T>[]; rows: T[]; id: (row: T, i: number) => string }) {
  return (
    <table role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">{columns.map((c) => <th key={c.head} role="columnheader" scope="col" className={c.number ? 'number' : ''}>{c.head}</th>)}</tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row, i) => (
          <tr role="row" key={id(row, i)}>
            {columns.map((c) => <Cell key={c.head} column={c} value={c.cell(row)} />)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Cell is a cell of a table. On narrow screens one without a value is left out.
function Cell<T>({ column: c, value }: { column: Column<T>; value: ReactNode }) {
  const classes = [c.number && 'number', c.main && 'main', (value === '–' || value === '') && 'none'].filter(Boolean).join(' ');
  return <td role="cell" data-label={c.head} className={classes}><div>{value}</div></td>;
}

// More loads the next page of a list.
export function More({ query }: { query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown } }) {
  if (!query.hasNextPage) return null;
  return <p className="more"><Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{query.isFetchingNextPage ? 'Loading…' : 'Show more'}</Button></p>;
}

// Facts is a list of names and values. Rows without a value are left out.
export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.filter(([, v]) => v !== undefined && v !== '' && v !== null && v !== false).map(([name, v]) => <div key={name}><dt>{name}</dt><dd>{v}</dd></div>)}
    </dl>
  );
}

export const windows: Choice[] = [
  { value: '3600', label: 'hour' }, { value: '86400', label: 'day' }, { value: '604800', label: '7 days' }, { value: '2592000', label: '30 days' }, { value: '0', label: 'all time' },
];

export const windowText = (s: number) => (s === 0 ? 'all time' : 'the last ' + span(s).replace(/^1 /, ''));

// windowChoices has the usual windows, and the present one if it is another.
export const windowChoices = (now: string): Choice[] => (windows.some((w) => typeof w === 'object' && w.value === now) ? windows : [...windows, { value: now, label: span(Number(now)) }]);
