/** How the page is built into the files that are committed, and served while it is worked on. */
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

declare const process: { env: Record<string, string | undefined> }

/** Where a gateway listens for Admin calls, for `cargo x console dev`. */
const gateway = process.env.TOLLHOUSE_GATEWAY ?? 'http://127.0.0.1:9180'

const proxied = { target: gateway, changeOrigin: true, headers: { origin: gateway } }

export default defineConfig({
  base: './',
  plugins: [react()],
  server: { proxy: { '/apisix': proxied, '/registry': proxied, '/console': proxied } },
  build: {
    target: 'es2022',
    outDir: '../crates/tollhouse-console/assets',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      output: {
        // All that the first screen needs is one file: one request, and one text to compress.
        codeSplitting: { groups: [{ name: 'main', tags: ['$initial'] }] },
        // Names are stable, so that a rebuild shows as a difference; the address names the build.
        entryFileNames: '[name].js',
        chunkFileNames: (chunk) => {
          const folder = /features\/([a-z]+)\/([a-z]+)\.tsx$/.exec(chunk.facadeModuleId ?? '')
          return folder ? `${folder[1]}-${folder[2]}.js` : '[name].js'
        },
        assetFileNames: '[name][extname]',
      },
    },
  },
})
