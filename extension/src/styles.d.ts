/** The text of a style sheet; bundle.mjs says what "?viewer" does to it. */
declare module "*.css" {
  const text: string;
  export default text;
}
declare module "*.css?viewer" {
  const text: string;
  export default text;
}
