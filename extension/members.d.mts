export function lettered(script: string): string;
