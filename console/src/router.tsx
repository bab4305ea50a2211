// A small router on the browser's history. Filters are in the query, so that every view has an address.
import { createContext, useContext, useEffect, useState, type AnchorHTMLAttributes, type MouseEvent, type ReactNode } from 'react';

export type Location = { path: string; query: URLSearchParams };

const read = (): Location => ({ path: window.location.pathname, query: new URLSearchParams(window.location.search) });

const Context = createContext<Location>(read());

export function Router({ children }: { children: ReactNode }) {
  const [location, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    window.addEventListener('popstate', changed);
    return () => window.removeEventListener('popstate', changed);
  }, []);
  return <Context value={location}>{children}</Context>;
}

export const useLocation = () => useContext(Context);

// go opens a page of the console.
export function go(to: string, { replace = false } = {}) {
  window.history[replace ? 'replaceState' : 'pushState'](null, '', to);
  window.dispatchEvent(new PopStateEvent('popstate'));
  if (!replace) window.scrollTo(0, 0);
}

export function Link({ to, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { to: string }) {
  const open = (e: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(e);
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return <a href={to} onClick={open} {...rest} />;
}

// useParam is a value in the query of the address.
export function useParam(name: string, initial = ''): [string, (value: string) => void] {
  const { query } = useLocation();
  return [query.get(name) ?? initial, (value) => setParams({ [name]: value === initial ? '' : value })];
}

// setParams changes values in the query of the address. Empty values are left out.
export function setParams(values: Record<string, string>) {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(window.location.pathname + (text && '?' + text), { replace: true });
}
