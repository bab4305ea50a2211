import { useEffect, useId, useState, type KeyboardEvent } from 'react';
import { useGet } from './api/hooks';
import type { PageLink } from './app';
import { openExplain, openModel } from './pages/models';
import { go } from './router';
import { useCan } from './session';
import { Dialog } from './ui/parts';
import { setTheme } from './ui/theme';

type Command = { name: string; kind: string; run: () => void };

const exchangeID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;

// Palette opens with Ctrl-K and finds pages, keys, models, an exchange by its id, and actions.
export function Palette({ nav }: { nav: PageLink[] }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const show = () => setOpen(true);
    const pressed = (e: globalThis.KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') {
        e.preventDefault();
        setOpen((was) => !was);
      }
    };
    window.addEventListener('keydown', pressed);
    window.addEventListener('palette', show);
    return () => {
      window.removeEventListener('keydown', pressed);
      window.removeEventListener('palette', show);
    };
  }, []);
  return open ? <Open nav={nav} close={() => setOpen(false)} /> : null;
}

function Open({ nav, close }: { nav: PageLink[]; close: () => void }) {
  const can = useCan();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const keys = useGet('/api/v1/keys', { query: { limit: 1000 } }, { enabled: can('list-keys') });
  const models = useGet('/api/v1/models', {}, { enabled: can('list-models') });
  const commands: Command[] = nav.map((p) => ({ name: p.title, kind: 'page', run: () => go(p.to) }));
  if (can('create-key')) commands.push({ name: 'Create a key', kind: 'action', run: () => go('/console/keys?new=1') });
  if (can('explain')) commands.push({ name: 'Explain a request', kind: 'action', run: openExplain });
  if (can('list-nodes')) commands.push({ name: 'Nodes and their versions', kind: 'page', run: () => go('/console/config') });
  if (can('get-config')) commands.push({ name: 'Settings of the file', kind: 'page', run: () => go('/console/config?from=file') });
  if (can('get-usage')) commands.push({ name: 'Usage by tag', kind: 'page', run: () => go('/console/usage?by=tag') }, { name: 'Usage by end user', kind: 'page', run: () => go('/console/usage?by=user') });
  if (can('list-targets')) commands.push({ name: 'Health and load of targets', kind: 'page', run: () => go('/console/models') });
  for (const theme of ['light', 'dark', 'system'] as const) commands.push({ name: 'Theme: ' + theme, kind: 'action', run: () => setTheme(theme) });
  for (const k of keys.data?.keys ?? []) commands.push({ name: k.name, kind: 'key', run: () => go('/console/keys/' + k.id) });
  for (const m of models.data?.models ?? []) commands.push({ name: m.model, kind: 'model', run: () => openModel(m.model) });
  const wanted = text.trim().toLowerCase();
  const found = commands.filter((c) => c.name.toLowerCase().includes(wanted)).slice(0, 12);
  if (exchangeID.test(wanted) && can('get-request')) found.unshift({ name: wanted, kind: 'exchange', run: () => go('/console/exchanges/' + wanted) });
  const chosen = Math.min(at, found.length - 1);
  const run = (c: Command | undefined) => {
    if (!c) return;
    close();
    c.run();
  };
  const pressed = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      setAt((chosen + (e.key === 'ArrowDown' ? 1 : found.length - 1)) % Math.max(1, found.length));
    } else if (e.key === 'Enter') {
      e.preventDefault();
      run(found[chosen]);
    }
  };
  return (
    <Dialog title="Go to" close={close} className="palette">
      <input type="text" role="combobox" aria-label="Page, key, model, exchange id or action" aria-expanded="true" aria-controls={id} aria-activedescendant={found.length ? id + chosen : undefined}
        placeholder="Page, key, model, exchange id or action" value={text} onChange={(e) => { setText(e.target.value); setAt(0); }} onKeyDown={pressed} />
      <ul id={id} role="listbox" aria-label="Results">
        {found.map((c, i) => (
          <li key={c.kind + c.name + i} id={id + i} role="option" aria-selected={i === chosen} onMouseMove={() => setAt(i)} onClick={() => run(c)}>
            <span className="option-name">{c.name}</span><span className="hint">{c.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="hint" role="status">Nothing has this name.</p>}
    </Dialog>
  );
}
