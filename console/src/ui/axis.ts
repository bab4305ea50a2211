// tickEvery returns the indexes of the points that get a label on an axis of a width, so that no two labels
// of a width touch each other or the end of the axis.
export function tickEvery(points: number, axis: number, label: number): number[] {
  const most = Math.max(1, Math.floor(axis / label));
  const every = Math.ceil(points / most);
  return Array.from({ length: Math.floor((points - 1 - ((every - 1) >> 1)) / every) + 1 }, (_, i) => ((every - 1) >> 1) + i * every);
}

// sameDecimals writes the amounts of an axis with the same number of decimals: $0.20 beside $0.25.
export function sameDecimals(texts: string[]): string[] {
  const places = Math.max(0, ...texts.map((t) => (/^\$\d+\.(\d+)$/.exec(t)?.[1] ?? '').length));
  return texts.map((t) => (/^\$[\d,]+(\.\d+)?$/.test(t) && t !== '$0' ? pad(t, places) : t));
}

function pad(text: string, places: number): string {
  const [whole = '', fraction = ''] = text.split('.');
  return places ? whole + '.' + fraction.padEnd(places, '0') : whole;
}

// byHourOrDay reports whether times are whole hours or days, one after another, as sums have them.
export const byHourOrDay = (times: number[]) => times[0]! % 3600 === 0 && (times.length < 2 || [3600, 86400].includes(times[1]! - times[0]!));
