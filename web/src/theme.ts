// SPDX-License-Identifier: Apache-2.0
// Light or dark, as the system or the user chooses, and the colours of canvases.
import { button } from "./dom";

type Theme = "light" | "dark";

const KEY = "gsprof-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners: (() => void)[] = [];
let chosen: Theme | null = null;
let printing = false;

/** Some browsers refuse storage to local files. */
function remember(theme: Theme): void {
    try {
        localStorage.setItem(KEY, theme);
    } catch {
        return;
    }
}

function remembered(): Theme | null {
    try {
        const text = localStorage.getItem(KEY);
        return text === "light" || text === "dark" ? text : null;
    } catch {
        return null;
    }
}

export function theme(): Theme {
    return printing ? "light" : (chosen ?? (dark.matches ? "dark" : "light"));
}

export function isPrinting(): boolean {
    return printing;
}

function apply(): void {
    document.documentElement.dataset.theme = theme();
    document.documentElement.classList.toggle("printing", printing);
    for (const listener of listeners) listener();
}

export function onTheme(listener: () => void): void {
    listeners.push(listener);
}

export function toggleTheme(): void {
    chosen = theme() === "dark" ? "light" : "dark";
    remember(chosen);
    apply();
}

export function themeButton(): HTMLButtonElement {
    const element = button("", toggleTheme, { class: "quiet", id: "theme" });
    const label = (): void => {
        const other = theme() === "dark" ? "Light" : "Dark";
        element.textContent = other;
        element.title = `Switch to the ${other.toLowerCase()} theme (t)`;
    };
    onTheme(label);
    label();
    return element;
}

export function startTheme(): void {
    chosen = remembered();
    dark.addEventListener("change", apply);
    // Canvases are drawn again in the light theme for paper.
    window.addEventListener("beforeprint", () => {
        printing = true;
        apply();
    });
    window.addEventListener("afterprint", () => {
        printing = false;
        apply();
    });
    apply();
}

/** Returns a colour of the style sheet. */
export function cssColor(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function hash(text: string): number {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return h >>> 0;
}

const SHADES = 48;
const palettes: Record<Theme, string[]> = { light: [], dark: [] };

function palette(which: Theme): string[] {
    const list = palettes[which];
    if (!list.length) {
        for (let i = 0; i < SHADES; i++) {
            // Neighbouring indices have distant hues. The contrast of text on each is above 4.5.
            const hue = (i * 137.5) % 360;
            const tint = Math.floor(i / 16) * 4;
            list.push(
                which === "light"
                    ? `hsl(${hue} ${58 - tint}% ${80 - tint / 2}%)`
                    : `hsl(${hue} ${40 - tint}% ${28 + tint / 2}%)`,
            );
        }
    }
    return list;
}

/** Returns the index of the colour of a name: the same name always has the same colour. */
export function shadeOf(name: string): number {
    return hash(name) % SHADES;
}

export function shade(index: number): string {
    return palette(theme())[index % SHADES];
}

/** Returns a colour between blue (-1, less), grey (0) and red (1, more). */
export function divergent(ratio: number): string {
    const size = Math.min(1, Math.abs(ratio));
    const hue = ratio > 0 ? 6 : 212;
    return theme() === "light"
        ? `hsl(${hue} ${Math.round(85 * Math.sqrt(size))}% ${Math.round(88 - 20 * size)}%)`
        : `hsl(${hue} ${Math.round(62 * Math.sqrt(size))}% ${Math.round(25 + 13 * size)}%)`;
}

/** Colours of lines, distinguishable with colour blindness and on both backgrounds. */
const LINES: Record<Theme, string[]> = {
    light: ["#2f5fd0", "#c2410c", "#0f7b6c", "#8b3fc4", "#a16207", "#be185d", "#4b5563", "#15803d"],
    dark: ["#7aa5ff", "#ff9d5c", "#45d0b8", "#cf9bff", "#e6c34a", "#ff8ab8", "#b6c0d0", "#7ddc8a"],
};

export function lineColor(index: number): string {
    const list = LINES[theme()];
    return list[index % list.length];
}
