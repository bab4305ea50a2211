import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { call, send, sendCall, type Call, type ModelList, type Schemas } from './client';
import type { paths } from './schema';

type Gets = { [P in keyof paths]: paths[P] extends { get: unknown } ? P : never }[keyof paths];
type GetInput<P extends Gets> = Parameters<typeof send<P, 'get'>>[2];
type GetResult<P extends Gets> = Awaited<ReturnType<typeof send<P, 'get'>>>;

type Options = { enabled?: boolean; every?: number };

// useGet reads an operation. The result has the call, which pages show beside the numbers.
export function useGet<P extends Gets>(path: P, input: GetInput<P>, { enabled = true, every }: Options = {}) {
  const c = call<P, 'get'>('get', path, input);
  const query = useQuery({
    queryKey: [path, c.path],
    queryFn: ({ signal }) => sendCall(c, signal) as Promise<GetResult<P>>,
    enabled,
    refetchInterval: every,
    placeholderData: keepPreviousData,
  });
  return { ...query, call: c };
}

type Page = { next?: string };

// usePages reads a list page by page.
export function usePages<P extends Gets>(path: P, input: GetInput<P>, { enabled = true, every }: Options = {}) {
  const at = (after: string) => call<P, 'get'>('get', path, { ...input, query: { ...(input as { query?: object }).query, ...(after && { after }) } } as GetInput<P>);
  const first = at('');
  const query = useInfiniteQuery({
    queryKey: [path, 'pages', first.path],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) => sendCall(at(pageParam), signal) as Promise<GetResult<P>>,
    getNextPageParam: (last) => (last as Page).next,
    enabled,
    refetchInterval: every,
    placeholderData: keepPreviousData,
  });
  return { ...query, call: first, pages: query.data?.pages ?? [] };
}

// useModels reads the list of models, which is served without a store.
export function useModels(enabled = true) {
  const c: Call = { method: 'GET', path: '/models' };
  const query = useQuery({ queryKey: ['/models'], queryFn: ({ signal }) => sendCall(c, signal) as Promise<ModelList>, enabled });
  return { ...query, call: c };
}

// useChange makes a change and then reads everything again that is shown.
export function useChange<I, O>(run: (input: I) => Promise<O>, done?: (out: O) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: run,
    onSuccess: async (out) => {
      await client.invalidateQueries();
      done?.(out);
    },
  });
}

// useKeyNames returns a function that names a key by its id.
export function useKeyNames(enabled = true) {
  const { data } = useGet('/api/v1/keys', { query: { limit: 1000 } }, { enabled });
  const names = new Map((data?.keys ?? []).map((k: Schemas['KeyView']) => [k.id, k.name]));
  return (id: string | undefined) => (id ? names.get(id) ?? id : '');
}
