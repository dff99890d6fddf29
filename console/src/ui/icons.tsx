/** Icons and the logo: paths of a grid of twenty, drawn with one line width. Which screen has which one is said here too. */
import type { Place } from './places'

const PATHS = {
  overview: 'M3.2 14.5a7 7 0 1 1 13.600 0M10 13.500l3-4.500M8.700 13.500a1.300 1.300 0 1 0 2.600 0 1.300 1.300 0 1 0-2.600 0',
  requests: 'M2.500 10h3.300l2.200-5.500 4 11 2.200-5.500h3.300',
  explain: 'M10 17.500V2.500M5 4h8.500l2 2-2 2H5zM15 10.500H6.500l-2 2 2 2H15z',
  nodes: 'M3.500 3.500h13v5h-13zM3.500 11.500h13v5h-13zM6.500 6h.01M6.500 14h.01',
  routes: 'M2.500 10h4M6.500 10c4 0 3-5 7-5h3.500M6.500 10c4 0 3 5 7 5h3.500M14.700 2.700L17 5l-2.300 2.300M14.700 12.700L17 15l-2.300 2.300',
  services: 'M10 2.800l7.200 3.500L10 9.800 2.800 6.300zM2.800 10l7.200 3.500 7.200-3.500M2.800 13.700l7.200 3.500 7.200-3.500',
  upstreams: 'M3 10h6M9 10l4.200-4.500M9 10h4.200M9 10l4.200 4.500M13.700 4.500a1.600 1.600 0 1 0 3.200 0 1.600 1.600 0 1 0-3.200 0M13.700 10a1.600 1.600 0 1 0 3.200 0 1.600 1.600 0 1 0-3.200 0M13.700 15.500a1.600 1.600 0 1 0 3.200 0 1.600 1.600 0 1 0-3.200 0',
  consumers: 'M4.500 6.200a3 3 0 1 0 6 0 3 3 0 1 0-6 0M2 16.800c0-3 2.400-4.800 5.500-4.800s5.500 1.800 5.500 4.800M13.200 3.500a3 3 0 0 1 0 5.400M15 12.300c1.900.7 3 2.300 3 4.500',
  plugins: 'M7 2.500v4M13 2.500v4M4.500 6.500h11v3a5.500 5.500 0 0 1-11 0zM10 15v2.800',
  certificates: 'M10 2.500l6.500 2.300v4.700c0 4-2.700 6.800-6.500 8-3.800-1.200-6.500-4-6.500-8V4.800zM7.200 9.800l2 2 3.600-4',
  sliders: 'M3 6h7.500M15 6h2M12.700 4v4M3 14h2M9.500 14H17M7.200 12v4',
  globe: 'M2.500 10a7.500 7.500 0 1 0 15 0 7.500 7.500 0 1 0-15 0M2.500 10h15M10 2.500c4.400 4.300 4.400 10.700 0 15-4.400-4.300-4.400-10.700 0-15',
  tag: 'M3 3h6.500l7.500 7.500-6.500 6.500L3 9.500zM6.600 6.600h.01',
  waves: 'M2.500 7.500c2.500-3.300 5-3.300 7.500 0s5 3.300 7.500 0M2.500 13.500c2.500-3.300 5-3.300 7.500 0s5 3.300 7.500 0',
  braces: 'M8 3C5 3 7 9 4 10c3 1 1 7 4 7M12 3c3 0 1 6 4 7-3 1-1 7-4 7',
  key: 'M2.800 10a3.300 3.300 0 1 0 6.600 0 3.300 3.300 0 1 0-6.600 0M9.400 10h8v3M14.400 10v2.400',
  box: 'M10 2.500l6.500 3.700v7.600L10 17.500l-6.500-3.700V6.200zM3.500 6.200L10 10l6.500-3.800M10 10v7.500',
  checks: 'M8.500 5H17M8.500 10H17M8.500 15H17M3 5l1.100 1.100L6 4M3 10l1.100 1.100L6 9M3 15l1.100 1.100L6 14',
  stopwatch: 'M3.500 11a6.500 6.500 0 1 0 13 0 6.500 6.500 0 1 0-13 0M10 7.500V11l2.300 1.600M7.800 2.300h4.400',
  history: 'M3 10a7 7 0 1 0 2.200-5.100L3 7M3 3v4h4M10 6.300V10l2.600 1.600',
  gear: 'M7.600 10a2.400 2.400 0 1 0 4.800 0 2.400 2.400 0 1 0-4.800 0M8.500 2.500h3l.5 2.200 1.600.9 2.200-.7 1.500 2.600-1.700 1.500v2l1.700 1.500-1.500 2.600-2.200-.7-1.600.9-.5 2.200h-3L8 15.300l-1.600-.9-2.200.7-1.500-2.600L4.400 11V9L2.700 7.500l1.500-2.600 2.200.7L8 4.700z',
  shrine: 'M10 2.500l7.500 7.500-7.500 7.500L2.500 10zM10 6.500v7M6.500 10h7',
  file: 'M5 2.500h6.500L16 7v10.500H5zM11.500 2.500V7H16M7.500 11h6M7.500 14h4',
  search: 'M3.500 8.700a5.200 5.200 0 1 0 10.400 0 5.200 5.200 0 1 0-10.400 0M12.600 12.600L17 17',
  chevron: 'M7.500 5l5 5-5 5',
  menu: 'M3 5.500h14M3 10h14M3 14.500h14',
  person: 'M6.700 6.500a3.300 3.300 0 1 0 6.600 0 3.300 3.300 0 1 0-6.600 0M3.500 17.300c0-3.400 2.800-5.500 6.500-5.500s6.500 2.100 6.500 5.500',
  rail: 'M3 3.500h14v13H3zM7.500 3.500v13M13.500 8l-2 2 2 2',
  plus: 'M10 4v12M4 10h12',
  undo: 'M7.500 4L3.500 8l4 4M3.500 8h8a5 5 0 0 1 0 10H8',
  arrow: 'M3.500 10h13M12 5.500l4.500 4.500-4.500 4.500',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 20 20" fill="none" stroke="currentColor" strokeWidth={1.5} strokeLinecap="round" strokeLinejoin="round" aria-hidden>
      <path d={PATHS[name]} />
    </svg>
  )
}

/** A toll house and its raised barrier. */
export function Logo({ size = 26 }: { size?: number }) {
  return (
    <svg className="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden>
      <path className="logo-house" fillRule="evenodd" d="M2 12.500 9.500 6 17 12.500v2h-1.500V27h-12V14.500H2zM7 17v4.500h5V17z" />
      <path className="logo-ground" d="M18.500 25.500h11.500V27H18.500z" />
      <path className="logo-arm" d="M18.300 22.600 29.200 8.400" />
      <path className="logo-bands" d="M18.300 22.600 29.200 8.400" />
      <circle className="logo-house" cx="18.300" cy="22.600" r="2.300" />
    </svg>
  )
}

/** Icons of what plugins are for. */
export const PURPOSE_ICONS = { authentication: 'key', security: 'certificates', traffic: 'routes', transformation: 'sliders', observability: 'requests', utility: 'plugins' } as const satisfies Record<string, IconName>

/** Icons of screens by their addresses; a screen without one has that of its section. */
const OF_ADDRESS: Record<string, IconName> = {
  '/': 'overview', '/requests': 'requests', '/explain': 'explain', '/nodes': 'nodes', '/plugins': 'plugins', '/certificates': 'certificates',
  '/objects/routes': 'routes', '/objects/services': 'services', '/objects/upstreams': 'upstreams', '/objects/consumers': 'consumers', '/objects/consumer_groups': 'consumers', '/objects/plugin_configs': 'sliders', '/objects/global_rules': 'globe', '/objects/plugin_metadata': 'tag', '/objects/stream_routes': 'waves', '/objects/protos': 'braces', '/objects/secrets': 'key',
  '/registry': 'box', '/registry/rules': 'checks', '/config': 'file', '/access': 'person', '/bench': 'stopwatch', '/changes': 'history', '/settings': 'gear',
}

const OF_SECTION: Record<Place['section'], IconName> = { watch: 'overview', gateway: 'routes', shenyu: 'shrine', registry: 'box', manage: 'gear' }

export const iconOf = ({ to, section }: { to: string; section: Place['section'] }): IconName => OF_ADDRESS[to] ?? OF_SECTION[section]
