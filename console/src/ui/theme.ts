import { useSyncExternalStore } from 'react';

// The theme follows the system until somebody chooses one. Only this choice is stored in the browser.
const stored = 'isogloss-theme';
export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

const listeners = new Set<() => void>();
const dark = matchMedia('(prefers-color-scheme: dark)');
dark.addEventListener('change', () => listeners.forEach((l) => l()));

export function chosenTheme(): Theme {
  const value = localStorage.getItem(stored);
  return value === 'light' || value === 'dark' ? value : 'system';
}

export function setTheme(theme: Theme) {
  if (theme === 'system') localStorage.removeItem(stored);
  else localStorage.setItem(stored, theme);
  applyTheme();
  listeners.forEach((l) => l());
}

export function applyTheme() {
  document.documentElement.dataset.theme = chosenTheme();
}

// useTheme returns the choice and what it means now, and renders again when either changes.
export function useTheme(): string {
  return useSyncExternalStore(
    (l) => {
      listeners.add(l);
      return () => listeners.delete(l);
    },
    () => chosenTheme() + (dark.matches ? ' dark' : ' light'),
  );
}
