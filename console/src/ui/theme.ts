/** Colours and sizes of the component library. */
import { createTheme, type MantineColorsTuple } from '@mantine/core'

const harbour: MantineColorsTuple = [
  '#e3fafc', '#c5f6fa', '#99e9f2', '#66d9e8', '#3bc9db', '#22b8cf', '#15aabf', '#1098ad', '#0c8599', '#0b7285',
]

export const theme = createTheme({
  primaryColor: 'harbour',
  primaryShade: { light: 9, dark: 9 },
  colors: { harbour },
  defaultRadius: 'sm',
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, "DejaVu Sans Mono", Menlo, Consolas, monospace',
  headings: { fontWeight: '650' },
  respectReducedMotion: true,
  components: {
    Anchor: { defaultProps: { inherit: true } },
  },
})
