import { useModels } from '../api/hooks';
import { useCan } from '../session';
import { near } from './near';
import { Text } from './parts';

const offered = 12; // names below the field

// splitNames reads names that are separated by commas or spaces.
export const splitNames = (text: string) => text.split(/[\s,]+/).filter(Boolean);

// ModelsField is a list of models that a key may use. It offers the known ones, and warns of names that no model has.
export function ModelsField({ value, set, hint }: { value: string; set: (v: string) => void; hint: string }) {
  const can = useCan();
  const { data } = useModels(can('list-models'));
  const known = data?.models.map((m) => m.model) ?? [];
  const chosen = splitNames(value);
  const begun = /[\s,]$/.test(value) ? '' : chosen.at(-1) ?? '';
  const partly = begun !== '' && !known.includes(begun) && !begun.endsWith('*');
  const found = known.filter((m) => !chosen.includes(m) && (!partly || m.toLowerCase().includes(begun.toLowerCase())));
  const add = (m: string) => set([...(partly ? chosen.slice(0, -1) : chosen.filter((c) => c !== '*')), m].join(', '));
  const unknown = data ? chosen.filter((c) => !covers(c, known, data.patterns ?? [])) : [];
  return (
    <div>
      <Text label="Models" value={value} set={set} hint={hint} />
      {found.length > 0 && (
        <ul className="offered" aria-label="Known models">
          {found.slice(0, offered).map((m) => <li key={m}><button type="button" className="button" onClick={() => add(m)}>+ {m}</button></li>)}
          {found.length > offered && <li className="hint">and {found.length - offered} more: write a part of the name</li>}
        </ul>
      )}
      {unknown.length > 0 && (
        <div className="notice warnings" role="status">
          {unknown.map((u) => <p key={u}>No model has the name <strong>{u}</strong>{near(u, known) && <>; did you mean <strong>{near(u, known)}</strong>?</>}{!near(u, known) && '.'}</p>)}
          <p>The key can use it as soon as the configuration has such a model.</p>
        </div>
      )}
    </div>
  );
}

// covers reports whether an entry of a key covers a known model, or one that a pattern passes on.
function covers(entry: string, known: string[], patterns: string[]): boolean {
  const prefix = entry.endsWith('*') ? entry.slice(0, -1) : undefined;
  if (known.some((m) => (prefix === undefined ? m === entry : m.startsWith(prefix)))) return true;
  return patterns.some((p) => {
    const start = p.replace(/\*$/, '');
    return entry.startsWith(start) || (prefix !== undefined && start.startsWith(prefix));
  });
}
