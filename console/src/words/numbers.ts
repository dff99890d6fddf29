/** How a language writes numbers: whole ones and those of a count, rates with one digit behind the point, and which number is one. */
export function numbersOf(language: string) {
  const whole = new Intl.NumberFormat(language)
  const rate = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
  const plurals = new Intl.PluralRules(language)
  return {
    number: (value: number) => whole.format(value),
    tenths: (value: number) => rate.format(value),
    isOne: (value: number) => plurals.select(value) === 'one',
  }
}
