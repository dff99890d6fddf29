/** Shape of a layer: the order, the titles and the help that people see over a schema. No layer is here. */
import type { Kind } from '../../api/types'

/** A text in English and Chinese. */
export type Text = readonly [en: string, zh: string]

/** What a reference leads to: a kind of objects, or one of ShenYu's. */
export type Target = Kind | 'shenyu-plugin' | 'shenyu-selector' | RegistryTarget

/** A name in the registry. */
export type RegistryTarget = 'registry-service' | 'registry-namespace'

/** How one field looks. Without an entry its title is made of its name, and its help is the schema's. */
export interface Look {
  title?: Text
  help?: Text
  /** Shown in an empty field; never stored. */
  placeholder?: string
  unit?: Unit
  /**
   * `lines`: text of several lines; `pem` and `proto` also take a dropped file; `onOff`: 1 and 0 as a switch; `duration`:
   * seconds as `30s`; the others are parts of governance rules, see `fields/comparisons.tsx`.
   */
  as?: 'lines' | 'pem' | 'proto' | 'onOff' | 'conditions' | 'nodes' | 'duration' | 'comparison' | 'callConditions' | 'labelConditions'
  /** What the field names. */
  of?: Target
  /** What `*` means in a field that names something of the registry; without it `*` is not offered. */
  all?: Text
  /** Titles of the values of an enum, by value. */
  choices?: Record<string, Text>
  /** Layer of the object inside, or of each item of a list. */
  layer?: Layer
  /** Whether the fields of an item, or of the object, stand beside each other. */
  isRow?: boolean
  /** Whether the object inside is drawn without a fold: under its title, or as if its fields were those around it. */
  inline?: 'titled' | 'bare'
  /** Shapes that an object may have, by the titles in its schema. */
  shapes?: Shapes
  /** Whether the field has a meaning beside its siblings; one that is set is always shown. */
  when?: (siblings: Record<string, unknown>) => boolean
  /** The value, or the values, that say nothing where the field has no meaning; it is then hidden as one that is not set. */
  idle?: unknown
  /** Whether the gateway never gives the value back. */
  isWriteOnly?: boolean
}

/** Choice between shapes: its title, and of each shape the title and the siblings that go with it. */
export interface Shapes { title: Text; of: Record<string, { title: Text; beside?: Record<string, string> }> }

export type Unit = 'seconds' | 'milliseconds' | 'bytes' | 'percent'

/** Fields of which one side is used, such as one path or several. */
export interface Choice { choice: Text; sides: Side[]; when?: Look['when'] }

export interface Side { title: Text; fields: string[] }

export type Item = string | Choice

/** `isRow`: the fields of an inner object stand beside each other. */
export interface Section { title: Text; note?: Text; items: Item[]; isFolded?: boolean; isRow?: boolean }

/** The order of an object's fields. What no section names is drawn from the schema, folded, below them. */
export interface Layer {
  sections: Section[]
  fields: Record<string, Look>
  /** What must be there although no `required` says so: of each entry at least one side. */
  needs?: Need[]
}

/** `isOfNew`: only a new object needs it, because the gateway keeps it to itself or takes older objects without it. */
export interface Need { title: Text; sides: string[][]; when?: Look['when']; isOfNew?: boolean }

/** A layer of one section: its fields in this order, and all others folded. */
export const plain = (fields: Record<string, Look>, items: Item[] = Object.keys(fields)): Layer => ({ sections: [{ title: ['', ''], items }], fields })

/** A layer without headings whose fields stand in lines: those of one line beside each other. */
export const lines = (fields: Record<string, Look>, rows: Item[][]): Layer => ({ sections: rows.map((items) => ({ title: ['', ''], items, isRow: items.length > 1 })), fields })

/** All names that the sections of a layer place. */
export const namesOf = (layer: Layer): string[] =>
  layer.sections.flatMap((section) => section.items.flatMap((item) => (typeof item === 'string' ? [item] : item.sides.flatMap((side) => side.fields))))

/** Fields that most kinds share. */
export const NAME: Look = { title: ['Name', '名称'], help: ['For people; it need not be unique.', '供人阅读，可重复。'] }
export const DESC: Look = { title: ['Description', '描述'], as: 'lines' }
export const LABELS: Look = { title: ['Labels', '标签'], help: ['Pairs such as team = shop, for search and tools.', '键值对，如 team = shop，供搜索和工具使用。'] }
export const PLUGINS: Look = { title: ['Plugins', '插件'] }

export const NOTES: Section = { title: ['Notes', '备注'], items: ['desc', 'labels'], isFolded: true }
