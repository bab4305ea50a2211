import { createContext, useContext } from 'react';
import type { Schemas, State } from './api/client';
import type { operations } from './api/schema';

export type OperationName = keyof operations;

// Session is the operator who uses the console.
export type Session = { state: State; who: Schemas['WhoView']; signOut: () => void };

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const s = useContext(SessionContext);
  if (!s) throw new Error('nobody has signed in');
  return s;
}

// useCan returns a function that says whether the operator may use an operation.
export function useCan(): (name: OperationName) => boolean {
  const { who } = useSession();
  return (name) => who.may.includes(name);
}
