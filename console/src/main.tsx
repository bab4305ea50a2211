import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './api/client';
import { App } from './app';
import { Router } from './router';
import './style.css';
import { applyTheme } from './ui/theme';

applyTheme();
const client = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 5_000, retry: (n, error) => n < 1 && !(error instanceof ApiError && error.status >= 400 && error.status < 500), refetchOnWindowFocus: false },
  },
});
createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Router><App /></Router>
    </QueryClientProvider>
  </StrictMode>,
);
