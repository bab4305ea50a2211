// near returns the known name that is most similar to a word, or '' if none is similar.
export function near(word: string, known: string[]): string {
  if (word.length > 64) return '';
  const least = Math.min(Math.max(2, Math.floor(word.length / 3)) + 1, word.length);
  let best = '', distance = least;
  for (const name of known) {
    if (name.length > 64 || Math.abs(name.length - word.length) >= distance) continue;
    const d = steps(word.toLowerCase(), name.toLowerCase());
    if (d < distance) [best, distance] = [name, d];
  }
  return best;
}

// steps counts the letters to insert, delete or replace between two words (Levenshtein).
function steps(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
