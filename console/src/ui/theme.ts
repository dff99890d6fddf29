/** Colours and sizes of the component library. Those of the page itself are in `tokens.css`. */
import { createTheme, type MantineColorsTuple } from '@mantine/core'

/** Deep water: the colour of what is pressed and of links. */
const harbour: MantineColorsTuple = ['#e6f6f7', '#cdecef', '#9fdbe1', '#6cc8d1', '#45b6c2', '#2aa5b2', '#17909e', '#0f7a87', '#0c6672', '#0a5661']

/** Greys with a little of that colour, so that day and night belong together. */
const gray: MantineColorsTuple = ['#f5f8f8', '#ebf0f0', '#dfe6e7', '#d0d9db', '#c0cbce', '#a3b1b5', '#7d8d92', '#5d6d72', '#3d4c51', '#1d2a2e']
const dark: MantineColorsTuple = ['#dfe9ea', '#bccacd', '#9fb2b6', '#6f858a', '#33454b', '#27373c', '#1c2a2f', '#132024', '#0e181b', '#0a1215']

export const theme = createTheme({
  primaryColor: 'harbour',
  primaryShade: { light: 8, dark: 8 },
  colors: { harbour, gray, dark },
  defaultRadius: 'md',
  radius: { xs: '4px', sm: '6px', md: '8px', lg: '12px' },
  fontFamily: '"Inter", "SF Pro Text", "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
  fontSizes: { xs: '12px', sm: '13.5px', md: '15px', lg: '17px', xl: '20px' },
  headings: {
    fontWeight: '650',
    sizes: { h1: { fontSize: '24px', lineHeight: '1.25' }, h2: { fontSize: '23px', lineHeight: '1.25' }, h3: { fontSize: '17px' }, h4: { fontSize: '15px', lineHeight: '1.4' }, h5: { fontSize: '14px', lineHeight: '1.4' } },
  },
  respectReducedMotion: true,
  components: {
    Anchor: { defaultProps: { inherit: true } },
    Table: { defaultProps: { horizontalSpacing: 'sm' } },
    Modal: { defaultProps: { radius: 'lg', padding: 'lg' } },
    Badge: { defaultProps: { radius: 'sm' } },
  },
})
