import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const dist = 'dist';

// compress replaces the files of the last build by the new ones, each compressed with gzip: the
// binary has only these. The folder's .gitignore stays.
function compress(): Plugin {
  return {
    name: 'compress',
    buildStart() {
      for (const name of readdirSync(dist)) {
        if (name !== '.gitignore') rmSync(join(dist, name), { recursive: true });
      }
    },
    closeBundle() {
      for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || entry.name === '.gitignore') continue;
        const file = join(entry.parentPath, entry.name);
        writeFileSync(file + '.gz', gzipSync(readFileSync(file), { level: 9 }));
        rmSync(file);
      }
    },
  };
}

export default defineConfig({
  base: '/console/',
  plugins: [compress()],
  build: {
    outDir: dist,
    emptyOutDir: false,
    assetsInlineLimit: 0, // the Content-Security-Policy allows no inline scripts and styles
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { onwarn: (w, next) => { if (w.code !== 'MODULE_LEVEL_DIRECTIVE') next(w); } }, // "use client" of libraries
  },
});
